"""Numbers, booleans, strings and moments from Arrow, in every width and unit, mean what they mean in dicts."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_pubsub.model.arrow.arrow_events import from_arrow
from ray_pubsub.model.values import INT64_MAX, INT64_MIN, Kind, Value
from tests.examples import scaled
from tests.unit.model.arrow_reading import DAY, EXACT, bad_strings, kinds, plains, problems, same


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_integers_of_every_width(width: int) -> None:
    signed, unsigned = getattr(pa, f"int{width}")(), getattr(pa, f"uint{width}")()
    limit = 2 ** (width - 1)
    assert plains(pa.array([-limit, None, 0, limit - 1], signed)) == [-limit, None, 0, limit - 1]
    assert plains(pa.array([0, None, limit - 1], unsigned)) == [0, None, limit - 1]
    assert kinds(pa.array([1], signed)) == kinds(pa.array([1], unsigned)) == {Kind.NUMBER}


def test_integers_keep_all_their_bits_beside_nulls() -> None:
    """numpy would make floats of a column with nulls."""
    assert plains(pa.array([2**53 + 1, None, INT64_MAX])) == [2**53 + 1, None, INT64_MAX]


def test_unsigned_beyond_64_signed_bits() -> None:
    batch = from_arrow(pa.table({"x": pa.array([1, 2**63, None, 2**64 - 1, INT64_MAX], pa.uint64())}))
    assert problems(batch) == [(1, "x"), (3, "x")]
    assert batch.rows() == [{"x": Value(Kind.NUMBER, 1)}, {}, {"x": Value(Kind.NUMBER, INT64_MAX)}]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_floats_of_every_width(kind: pa.DataType) -> None:
    values = [np.float16(value) if kind == pa.float16() else value for value in (1.5, -0.0, 5.0, -2.25)]
    extremes = [np.float16(value) if kind == pa.float16() else value for value in (np.inf, -np.inf, np.nan)]
    column = pa.array([*values, None, *extremes], kind)
    assert plains(column) == [1.5, 0, 5, -2.25, None, np.inf, -np.inf, None]
    assert kinds(column) == {Kind.NUMBER}


def test_a_narrow_float_is_the_number_it_holds() -> None:
    assert plains(pa.array([0.1], pa.float32())) == [float(np.float32(0.1))] != [0.1]


def test_floats_beyond_the_ints() -> None:
    values = [2.0**63, -(2.0**63), 1e300, -1e300, 5e-324, 2.0**53, INT64_MAX * 4.0]
    assert plains(pa.array(values)) == values


DECIMALS = [pa.decimal32(9, 2), pa.decimal64(18, 2), pa.decimal128(38, 2), pa.decimal256(76, 2)]


@pytest.mark.parametrize("kind", DECIMALS, ids=str)
def test_decimals_of_every_width(kind: pa.DataType) -> None:
    digits = ["100", "-2.10", "0", "0.01", "1.25", "-0.99"]
    column = pa.array([*map(Decimal, digits), None], kind)
    assert plains(column) == [100, -2.1, 0, 0.01, 1.25, -0.99, None]
    assert kinds(column) == {Kind.NUMBER}


@pytest.mark.parametrize(
    "kind", [pa.decimal32(9, 9), pa.decimal64(18, 18), pa.decimal128(38, 38), pa.decimal256(76, 76)], ids=str
)
def test_decimals_that_are_all_fraction(kind: pa.DataType) -> None:
    assert plains(pa.array([Decimal("0.5"), None, Decimal("-0.125"), Decimal(0)], kind)) == [0.5, None, -0.125, 0]


def test_decimals_of_whole_numbers() -> None:
    limits = [INT64_MAX, INT64_MIN, 2**53 + 1, INT64_MAX - 500]
    assert plains(pa.array(list(map(Decimal, limits)), pa.decimal128(38, 0))) == limits
    assert plains(pa.array(list(map(Decimal, limits)), pa.decimal256(40, 3))) == limits


@pytest.mark.parametrize("beyond", [2**63, -(2**63) - 1, 10**30, -(10**30)], ids=str)
def test_decimals_beyond_64_bits(beyond: int) -> None:
    batch = from_arrow(pa.table({"x": pa.array([Decimal(1), Decimal(beyond)], pa.decimal128(38, 0))}))
    assert problems(batch) == [(1, "x")]
    assert batch.rows() == [{"x": Value(Kind.NUMBER, 1)}]


def test_decimals_with_more_digits_than_a_float() -> None:
    digits = ["0.1", "0.12345678901234567890", "0.1234567890123456", "123456789012345678.5", "1.5"]
    batch = from_arrow(pa.table({"x": pa.array(list(map(Decimal, digits)), pa.decimal128(38, 20))}))
    assert problems(batch) == [(1, "x"), (3, "x")]
    assert [row["x"].plain for row in batch.rows()] == [0.1, 0.1234567890123456, 1.5]


@settings(derandomize=True, deadline=None, max_examples=scaled(75))
@given(st.sampled_from([(15, 4), (18, 9), (38, 2), (38, 20), (38, 37)]), st.lists(st.integers(), max_size=4), st.data())
def test_decimals_read_as_in_dicts(shape: tuple[int, int], unscaled: list[int], data: st.DataObject) -> None:
    precision, scale = shape
    limit = 10**precision - 1
    unscaled = [max(-limit, min(limit, number)) for number in unscaled]
    unscaled += data.draw(st.lists(st.integers(-limit, limit), max_size=3))
    values = [EXACT.scaleb(Decimal(number), -scale) for number in unscaled]
    same(from_arrow(pa.table({"x": pa.array(values, pa.decimal128(precision, scale))})), [{"x": v} for v in values])


def test_booleans() -> None:
    assert plains(pa.array([True, None, False])) == [True, None, False]
    assert kinds(pa.array([True, None, False])) == {Kind.BOOLEAN}


def test_columns_of_nulls() -> None:
    assert plains(pa.nulls(3)) == [None] * 3
    assert plains(pa.nulls(3, pa.int64())) == [None] * 3
    assert plains(pa.nulls(3, pa.string())) == [None] * 3
    assert plains(pa.nulls(3, pa.list_(pa.int8()))) == [None] * 3


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_strings_of_every_layout(kind: pa.DataType) -> None:
    values = ["a", None, "", "longer than twelve bytes", "\U0010ffff", "a"]
    assert plains(pa.array(values, kind)) == values
    assert plains(pa.array(values, kind)[2:]) == values[2:]
    assert kinds(pa.array(values, kind)) == {Kind.STRING}


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_strings_of_every_layout_beside_a_bad_row(kind: pa.DataType) -> None:
    batch = from_arrow(pa.table({"x": pa.array(["a", None, "b"], kind), "y": pa.array([b"bad", None, None])}))
    assert problems(batch) == [(0, "y")]
    assert batch.rows() == [{}, {"x": Value(Kind.STRING, "b")}]


@pytest.mark.parametrize("index", [pa.int8(), pa.int32(), pa.uint16(), pa.int64()], ids=str)
def test_dictionaries_with_nulls_and_repetitions(index: pa.DataType) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2, 3], index), pa.array(["a", None, "a", "b"]))
    assert plains(column) == ["a", None, None, "a", "b"]
    assert plains(column[1:4]) == [None, None, "a"]


def test_dictionaries_of_other_kinds() -> None:
    numbers = pa.DictionaryArray.from_arrays(pa.array([1, None, 0, 2]), pa.array([2**53 + 1, 5, None]))
    assert plains(numbers) == [5, None, 2**53 + 1, None]
    moments = pa.array([datetime.datetime(1970, 1, 2), None]).dictionary_encode()
    assert plains(moments) == [DAY, None]
    lists = pa.DictionaryArray.from_arrays(pa.array([0, None]), pa.array([b"x"]))
    assert problems(from_arrow(pa.table({"x": lists}))) == [(0, "x")]


def test_chunks_with_different_dictionaries() -> None:
    chunks = [pa.array(values).dictionary_encode() for values in (["a", "b"], ["b", None, "c"], [])]
    kind = chunks[0].type
    assert plains(pa.chunked_array([chunks[0], chunks[1], chunks[2].cast(kind)], kind)) == ["a", "b", "b", None, "c"]


def test_strings_that_are_not_utf8() -> None:
    batch = from_arrow(pa.table({"x": bad_strings()}))
    assert problems(batch) == [(1, "x")]
    assert batch.rows() == [{"x": Value(Kind.STRING, "a")}, {"x": Value(Kind.STRING, "bc")}]


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "+02:00"])
@pytest.mark.parametrize(("unit", "factor"), [("s", 1_000_000), ("ms", 1_000), ("us", 1)])
def test_timestamps_of_every_unit(unit: str, factor: int, zone: str | None) -> None:
    column = pa.array([0, None, 1, -1, 1_714_557_600], pa.int64()).cast(pa.timestamp(unit, zone))
    assert plains(column) == [0, None, factor, -factor, 1_714_557_600 * factor]
    assert kinds(column) == {Kind.TIMESTAMP}


def test_nanoseconds_are_cut_down_to_the_microsecond() -> None:
    column = pa.array([0, 999, 1_000, 1_999, -1, -1_000, -1_001, INT64_MIN], pa.int64()).cast(pa.timestamp("ns"))
    assert plains(column) == [0, 0, 1, 1, -1, -1, -2, INT64_MIN // 1_000]


def test_a_zone_changes_the_clock_not_the_moment() -> None:
    moment = datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    assert plains(pa.array([moment])) == [1_719_828_000_000_000]


@pytest.mark.parametrize("unit", ["s", "ms"])
@pytest.mark.parametrize("count", [INT64_MAX, INT64_MIN + 1, INT64_MIN], ids=["max", "min + 1", "min"])
def test_timestamps_beyond_64_bits_of_microseconds(unit: str, count: int) -> None:
    batch = from_arrow(pa.table({"x": pa.array([0, count], pa.int64()).cast(pa.timestamp(unit))}))
    assert problems(batch) == [(1, "x")]
    assert batch.rows() == [{"x": Value(Kind.TIMESTAMP, 0)}]


def test_dates() -> None:
    dates = [datetime.date(1970, 1, 2), None, datetime.date(1969, 12, 31), datetime.date(1, 1, 1)]
    for kind in (pa.date32(), pa.date64()):
        assert plains(pa.array(dates, kind)) == [DAY, None, -DAY, -719_162 * DAY]
        assert kinds(pa.array(dates, kind)) == {Kind.TIMESTAMP}
