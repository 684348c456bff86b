"""Events from Arrow: every type of column, in every way Arrow can lay it out, means what the same dicts mean."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_pubsub.errors import TableError
from ray_pubsub.model.arrow.arrow_events import from_arrow
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.events import read_events
from ray_pubsub.model.values import INT64_MAX, INT64_MIN, Kind, Value
from ray_pubsub.settings import EVENT_DEPTH
from tests.examples import scaled

DAY = 86_400_000_000
EXACT = Context(prec=100)


def plains(column: Any) -> list[Any]:
    """What the column's rows read as, None for absent; every row must be good."""
    batch = from_arrow(pa.table({"x": column}))
    assert batch.errors == []
    return [row["x"].plain if "x" in row else None for row in batch.rows()]


def kinds(column: Any) -> set[Kind]:
    return {value.kind for row in from_arrow(pa.table({"x": column})).rows() for value in row.values()}


def problems(batch: EventBatch) -> list[tuple[int | None, str | None]]:
    return [(error.position, error.attribute) for error in batch.errors]


# ------------------------------------------------------------------------------------------------------------- numbers


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


# ------------------------------------------------------------------------------------------------------------- strings


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


def bad_strings() -> pa.Array:
    """Arrow does not check that strings are UTF-8."""
    offsets = pa.py_buffer(np.array([0, 1, 2, 4], dtype=np.int32).tobytes())
    return pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"a\xffbc")])


def test_strings_that_are_not_utf8() -> None:
    batch = from_arrow(pa.table({"x": bad_strings()}))
    assert problems(batch) == [(1, "x")]
    assert batch.rows() == [{"x": Value(Kind.STRING, "a")}, {"x": Value(Kind.STRING, "bc")}]


# ----------------------------------------------------------------------------------------------------------- timestamps


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


# -------------------------------------------------------------------------------------------------------- nested columns


def test_structs_are_flattened_and_a_null_parent_hides_its_children() -> None:
    inner = pa.StructArray.from_arrays(
        [pa.array([1, 2, 3, 4])], names=["b"], mask=pa.array([False, True, False, False])
    )
    outer = pa.StructArray.from_arrays(
        [inner, pa.array(["p", "q", None, "s"])], names=["a", "s"], mask=pa.array([False, False, False, True])
    )
    rows = from_arrow(pa.table({"x": outer})).rows()
    assert rows == [
        {"x.a.b": Value(Kind.NUMBER, 1), "x.s": Value(Kind.STRING, "p")},
        {"x.s": Value(Kind.STRING, "q")},
        {"x.a.b": Value(Kind.NUMBER, 3)},
        {},
    ]
    assert from_arrow(pa.table({"x": outer[1:3]})).rows() == rows[1:3]


def test_a_bad_value_in_a_struct_names_its_path() -> None:
    batch = from_arrow(pa.table({"x": pa.array([None, {"a": {"b": b"x"}}, {"a": {"b": None}}, {"a": None}])}))
    assert problems(batch) == [(1, "x.a.b")]
    assert batch.size == 3


def test_a_struct_without_fields() -> None:
    assert from_arrow(pa.table({"x": pa.array([{}, None], pa.struct([])), "y": [1, 2]})).size == 2


STRING_TO_INT = pa.map_(pa.string(), pa.int64())
MAPS = pa.array([[("a", 1), ("b", None)], None, [], [("b", 2), ("a", 3)], [("c", 2**53 + 1)]], STRING_TO_INT)
READ_MAPS: list[dict[str, Value]] = [
    {"m.a": Value(Kind.NUMBER, 1)},
    {},
    {},
    {"m.b": Value(Kind.NUMBER, 2), "m.a": Value(Kind.NUMBER, 3)},
    {"m.c": Value(Kind.NUMBER, 2**53 + 1)},
]


@pytest.mark.parametrize(("start", "stop"), [(0, 5), (1, 5), (3, 4), (1, 3), (2, 2)])
def test_maps_are_flattened(start: int, stop: int) -> None:
    assert from_arrow(pa.table({"m": MAPS[start:stop]})).rows() == READ_MAPS[start:stop]


def test_maps_in_chunks() -> None:
    assert from_arrow(pa.table({"m": pa.chunked_array([MAPS[:2], MAPS[2:3], MAPS[3:]])})).rows() == READ_MAPS


def test_maps_without_any_entry() -> None:
    assert from_arrow(pa.table({"m": pa.array([], STRING_TO_INT)})).size == 0
    assert from_arrow(pa.table({"m": pa.array([None, None], STRING_TO_INT)})).rows() == [{}, {}]
    assert from_arrow(pa.table({"m": pa.array([[], None], STRING_TO_INT)})).rows() == [{}, {}]


def test_a_key_given_twice_in_one_map() -> None:
    batch = from_arrow(
        pa.table({"m": pa.array([[("a", 1)], [("a", 1), ("b", 5), ("a", 2)], [("b", 3)]], STRING_TO_INT)})
    )
    assert problems(batch) == [(1, "m.a")]
    assert batch.rows() == [{"m.a": Value(Kind.NUMBER, 1)}, {"m.b": Value(Kind.NUMBER, 3)}]


def test_maps_of_structs_and_of_maps() -> None:
    structs = pa.map_(pa.string(), pa.struct([("x", pa.int64()), ("y", pa.string())]))
    maps = pa.map_(pa.large_string(), STRING_TO_INT)
    table = pa.table(
        {
            "s": pa.array([[("k", {"x": 1, "y": None})], [("l", None)], None], structs),
            "m": pa.array([[("k", [("i", 1)])], [], [("k", [("i", 2), ("j", 3)]), ("l", None)]], maps),
        }
    )
    assert from_arrow(table).rows() == [
        {"s.k.x": Value(Kind.NUMBER, 1), "m.k.i": Value(Kind.NUMBER, 1)},
        {},
        {"m.k.i": Value(Kind.NUMBER, 2), "m.k.j": Value(Kind.NUMBER, 3)},
    ]


def test_keys_of_maps_are_strings() -> None:
    with pytest.raises(TableError, match="a map's keys are attribute names") as caught:
        from_arrow(pa.table({"m": pa.array([[(1, 1)]], pa.map_(pa.int64(), pa.int64()))}))
    assert caught.value.column == "m"


def test_keys_of_maps_that_are_not_utf8() -> None:
    maps = pa.MapArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), bad_strings(), pa.array([1, 2, 3]))
    batch = from_arrow(pa.table({"m": maps}))
    assert [error.position for error in batch.errors] == [1]
    assert batch.rows() == [{"m.a": Value(Kind.NUMBER, 1)}, {"m.bc": Value(Kind.NUMBER, 3)}]


# --------------------------------------------------------------------------------------------------- layouts of a column


def test_chunked_tables() -> None:
    table = pa.concat_tables(
        [pa.table({"x": [1, None], "s": ["a", "b"]}), pa.table({"x": [2**53 + 1], "s": pa.array([None], pa.string())})]
    )
    assert table.column("x").num_chunks == 2
    assert from_arrow(table).rows() == from_dicts(table.to_pylist()).rows()
    assert from_arrow(table.slice(1)).rows() == from_dicts(table.to_pylist()[1:]).rows()


def test_a_column_without_chunks() -> None:
    assert from_arrow(pa.table({"x": pa.chunked_array([], pa.int64())})).size == 0


def test_run_end_encoded() -> None:
    column = pa.RunEndEncodedArray.from_arrays([2, 3, 5], pa.array(["a", None, "b"]))
    assert plains(column) == ["a", "a", None, "b", "b"]
    assert plains(column[1:4]) == ["a", None, "b"]
    assert plains(pa.RunEndEncodedArray.from_arrays([2, 3], pa.array([2**53 + 1, None]))) == [2**53 + 1] * 2 + [None]


def test_run_end_encoded_beside_a_bad_row() -> None:
    column = pa.RunEndEncodedArray.from_arrays([2, 3], pa.array(["a", None]))
    batch = from_arrow(pa.table({"x": column, "y": pa.array([b"bad", None, None])}))
    assert problems(batch) == [(0, "y")]
    assert batch.rows() == [{"x": Value(Kind.STRING, "a")}, {}]


def test_extension_types_are_read_as_what_they_store() -> None:
    assert plains(pa.array(["{}", None], pa.json_())) == ["{}", None]


def test_booleans_stored_as_bytes_are_booleans() -> None:
    column = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8()))
    assert kinds(column) == {Kind.BOOLEAN}
    assert plains(column) == [True, False, None]


def test_a_record_batch_is_a_table() -> None:
    assert from_arrow(pa.record_batch({"x": [1, 2]})).rows() == from_dicts([{"x": 1}, {"x": 2}]).rows()
    assert read_events(pa.record_batch({"x": [1]})).rows() == from_dicts([{"x": 1}]).rows()


def test_a_stream_of_batches_is_read_or_refused() -> None:
    """What has a schema but no columns is not a table."""
    try:
        batch = read_events(pa.table({"x": [1]}).to_reader())
    except Exception as error:
        assert type(error).__module__ == "ray_pubsub.errors", repr(error)
    else:
        assert batch.rows() == [{"x": Value(Kind.NUMBER, 1)}]


def test_tables_without_rows_or_columns() -> None:
    assert from_arrow(pa.table({})).size == 0
    assert from_arrow(pa.table({"x": pa.array([], pa.int64()), "s": pa.array([], pa.string())})).rows() == []


# ------------------------------------------------------------------------------------------------------------- bad rows

UNSUPPORTED: list[tuple[pa.DataType, Any]] = [
    (pa.list_(pa.binary()), [b"x"]),
    (pa.list_(pa.list_(pa.binary())), [[b"x"]]),
    (pa.binary(), b"x"),
    (pa.large_binary(), b""),
    (pa.binary(2), b"xx"),
    (pa.binary_view(), b"x"),
    (pa.time32("s"), 5),
    (pa.time64("us"), 5),
    (pa.duration("s"), 5),
    (pa.month_day_nano_interval(), (1, 2, 3)),
    (pa.uuid(), b"0" * 16),
]


@pytest.mark.parametrize(("kind", "value"), UNSUPPORTED, ids=[str(kind) for kind, _ in UNSUPPORTED])
def test_other_types_make_the_rows_bad_that_have_a_value(kind: pa.DataType, value: Any) -> None:
    table = pa.table({"k": [1, 2, 3, 4], "x": pa.array([None, value, None, value], kind)})
    batch = from_arrow(table)
    assert problems(batch) == [(1, "x"), (3, "x")]
    assert batch.rows() == [{"k": Value(Kind.NUMBER, 1)}, {"k": Value(Kind.NUMBER, 3)}]
    assert batch.positions is not None
    assert batch.positions.tolist() == batch.ids.tolist() == [0, 2]
    assert (batch.size, batch.input_size) == (2, 4)
    lenient = from_arrow(table, strict=False)
    assert not lenient.errors
    assert [(warning.position, warning.attribute) for warning in lenient.warnings] == [(1, "x"), (3, "x")]
    assert lenient.rows() == [{"k": Value(Kind.NUMBER, number)} for number in (1, 2, 3, 4)]


LISTS = [pa.list_(pa.int64()), pa.large_list(pa.int8()), pa.list_(pa.int16(), 2), pa.list_view(pa.int8())]


@pytest.mark.parametrize("kind", LISTS, ids=str)
def test_lists_of_every_layout_are_values(kind: pa.DataType) -> None:
    array = pa.array([[9, 9], None, [1, None], [3, 4]], kind)[1:]
    rows = from_arrow(pa.table({"x": array})).rows()
    elements = [Value(Kind.NUMBER, number) for number in (1, 3, 4)]
    assert rows == [{}, {"x": Value(Kind.LIST, (elements[0], None))}, {"x": Value(Kind.LIST, tuple(elements[1:]))}]


ELEMENTS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["a", None, "\u00e9"]),
    (pa.float64(), [1.5, None, 2.0]),
    (pa.struct({"n": pa.int64()}), [{"n": 1}, None, {"n": None}]),
    (pa.timestamp("us"), [datetime.datetime(2024, 5, 1), None, datetime.datetime(1969, 1, 1)]),
]
LAYOUTS: list[Callable[[pa.DataType], pa.DataType]] = [
    pa.list_, pa.large_list, lambda kind: pa.list_(kind, 2), pa.list_view, pa.large_list_view,
]  # fmt: skip


@pytest.mark.parametrize("element", ELEMENTS, ids=lambda element: str(element[0]))
@pytest.mark.parametrize("layout", LAYOUTS, ids=["list", "large", "fixed", "view", "large view"])
def test_slices_of_lists_with_nulls_read_as_in_dicts(
    layout: Callable[[pa.DataType], pa.DataType], element: tuple[pa.DataType, list[Any]]
) -> None:
    kind, (first, null, last) = element
    array = pa.array([[first, last], None, [first, null], [last, first], [null, null]], layout(kind))
    for part in (array, array[1:], array[2:4], array[4:], array[:0], pa.chunked_array([array[3:], array[:2]])):
        found = from_arrow(pa.table({"x": part}))
        assert found.rows() == from_dicts([{"x": each} for each in part.to_pylist()]).rows()
        assert not found.errors


@pytest.mark.parametrize("layout", LAYOUTS[:2], ids=["list", "large"])
@pytest.mark.parametrize("elements", [100_000, 100_001])
def test_a_list_has_as_many_elements_as_in_dicts(layout: Callable[[pa.DataType], pa.DataType], elements: int) -> None:
    array = pa.array([None, ["x"] * elements, ["y"]], layout(pa.string()))
    found = from_arrow(pa.table({"x": array}), strict=False)
    assert [(warning.position, warning.attribute) for warning in found.warnings] == [(1, "x")] * (elements - 100_000)
    assert ["x" in row for row in found.rows()] == [False, elements == 100_000, True]


def test_lists_of_structs_are_lists_of_objects() -> None:
    kind = pa.list_(pa.struct({"n": pa.int64(), "l": pa.list_(pa.string())}))
    table = pa.table({"x": pa.array([[{"n": 1, "l": ["a", None]}, None, {"n": None, "l": None}], [], None], kind)})
    objects = ({"n": Value(Kind.NUMBER, 1), "l": Value(Kind.LIST, (Value(Kind.STRING, "a"), None))}, None, {})
    assert from_arrow(table).rows() == [{"x": Value(Kind.LIST, objects)}, {"x": Value(Kind.LIST, ())}, {}]
    assert from_dicts(table.to_pylist()).rows() == from_arrow(table).rows()


def test_unions_are_refused_row_by_row() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])
    assert problems(from_arrow(pa.table({"x": union}))) == [(0, "x"), (1, "x")]


def test_the_first_problem_of_a_row_is_reported() -> None:
    batch = from_arrow(pa.table({"x": pa.array([b"x", None]), "y": pa.array([b"y", b"y"])}))
    assert problems(batch) == [(0, "x"), (1, "y")]
    assert batch.size == 0


def test_a_bad_row_among_chunks() -> None:
    table = pa.concat_tables([pa.table({"x": pa.array([value, 1], pa.uint64())}) for value in (2**63, 5, 2**64 - 1)])
    batch = from_arrow(table)
    assert problems(batch) == [(0, "x"), (4, "x")]
    assert [row["x"].plain for row in batch.rows()] == [1, 5, 1, 1]


# ------------------------------------------------------------------------------------------- one attribute, two columns


def test_two_columns_of_one_name() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(TableError, match="two columns of this name") as caught:
        from_arrow(table)
    assert caught.value.column == "x"


def test_a_dotted_column_and_a_nested_one() -> None:
    with pytest.raises(TableError, match="two columns give this attribute") as caught:
        from_arrow(pa.table({"a.b": [1], "a": [{"b": 2}]}))
    assert caught.value.column == "a.b"


def test_a_dotted_column_and_a_nested_one_of_another_kind() -> None:
    """The event would have both a string and a number under one name; as a dict it is refused."""
    with pytest.raises(TableError, match="two columns give this attribute"):
        from_arrow(pa.table({"a.b": ["x"], "a": [{"b": 2}]}))


# ------------------------------------------------------------------------------------------------------------------- ids


def test_event_ids_of_a_column() -> None:
    table = pa.table({"n": pa.array([7, 8], pa.int32()), "s": ["p", "q"], "x": [1, 2]})
    assert from_arrow(table, "n").ids.tolist() == [7, 8]
    assert from_arrow(table, "n").ids.dtype == np.int64
    assert from_arrow(table, "s").ids.tolist() == ["p", "q"]
    assert from_arrow(pa.table({"s": table["s"].dictionary_encode()}), "s").ids.tolist() == ["p", "q"]
    assert from_arrow(table).ids.tolist() == [0, 1]


def test_event_ids_of_the_good_rows() -> None:
    batch = from_arrow(pa.table({"id": ["p", "q", "r"], "x": pa.array([None, b"x", None])}), "id")
    assert batch.ids.tolist() == ["p", "r"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1.0, 2.0]),
        pa.array([True, False]),
        pa.array(["a", None]),
        pa.array([1, None]),
        pa.nulls(2),
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None])),
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([7, None])),
    ],
    ids=["float", "boolean", "null string", "null int", "nulls", "null in strings", "null in ints"],
)
def test_event_ids_are_strings_or_integers_none_missing(column: pa.Array) -> None:
    with pytest.raises(TableError) as caught:
        from_arrow(pa.table({"id": column}), "id")
    assert caught.value.column == "id"


def test_event_ids_beyond_64_signed_bits() -> None:
    """The row is bad or the column is; nothing of Arrow's comes through."""
    table = pa.table({"id": pa.array([1, 2**63], pa.uint64())})
    try:
        batch = from_arrow(table, "id")
    except TableError as error:
        assert error.column == "id"
    else:
        assert problems(batch) == [(1, "id")]


def test_event_ids_of_no_column() -> None:
    with pytest.raises(TableError, match="no such column"):
        from_arrow(pa.table({"x": [1]}), "id")


# --------------------------------------------------------------------------------------- the same as the same dicts


def same(batch: EventBatch, events: list[dict[str, Any]]) -> None:
    expected = from_dicts(events)
    assert problems(batch) == problems(expected)
    assert batch.rows() == expected.rows()
    assert [{name: value.kind for name, value in row.items()} for row in batch.rows()] == [
        {name: value.kind for name, value in row.items()} for row in expected.rows()
    ]


def moments(unit: str, most: int) -> st.SearchStrategy[np.datetime64]:
    return st.integers(-most, most).map(lambda count: np.datetime64(count, unit))  # type: ignore[call-overload]


STRINGS = st.text(max_size=4)
COLUMNS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    *[(getattr(pa, f"int{w}")(), st.integers(-(2 ** (w - 1)), 2 ** (w - 1) - 1)) for w in (8, 16, 32, 64)],
    *[(getattr(pa, f"uint{w}")(), st.integers(0, 2**w - 1)) for w in (8, 16, 32, 64)],
    (pa.float16(), st.floats(width=16).map(np.float16)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.bool_(), st.booleans()),
    (pa.string(), STRINGS),
    (pa.large_string(), STRINGS),
    (pa.dictionary(pa.int32(), pa.string()), STRINGS),
    (pa.dictionary(pa.int8(), pa.int64()), st.integers(-5, 5)),
    (pa.decimal128(12, 3), st.decimals(-99_999_999, 99_999_999, places=3)),
    (pa.date32(), st.dates()),
    (pa.date64(), st.dates()),
    (pa.timestamp("s"), moments("s", 2**42)),
    (pa.timestamp("ms"), moments("ms", 2**52)),
    (pa.timestamp("us"), moments("us", 2**62)),
    (pa.timestamp("ns"), moments("ns", 2**62)),
    (pa.timestamp("us", "Asia/Tokyo"), moments("us", 2**62)),
    (pa.binary(), st.binary(max_size=2)),
    (pa.null(), st.none()),
]


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def column_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        counts = [None if value is None else int(value.astype(np.int64)) for value in values]
        return pa.array(counts, pa.int64()).cast(kind)
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


@st.composite
def nested(draw: st.DrawFn, size: int) -> tuple[pa.Array, list[Any]]:
    """A struct or a map column, and its values as dicts."""
    kind, values = draw(st.sampled_from([(pa.int64(), st.integers(-9, 9)), (pa.string(), STRINGS)]))
    keys = st.sampled_from(["p", "q", "r"])
    if draw(st.booleans()):
        dicts = draw(st.lists(optional(st.dictionaries(keys, optional(values))), min_size=size, max_size=size))
        pairs = [None if entry is None else list(entry.items()) for entry in dicts]
        return pa.array(pairs, pa.map_(pa.string(), kind)), dicts
    inner = st.fixed_dictionaries({"i": optional(values)})
    whole = st.fixed_dictionaries({"p": optional(values), "q": optional(inner)})
    dicts = draw(st.lists(optional(whole), min_size=size, max_size=size))
    return pa.array(dicts, pa.struct([("p", kind), ("q", pa.struct([("i", kind)]))])), dicts


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Table, list[dict[str, Any]]]:
    """A table, sliced and chunked anyhow, and the same events as dicts."""
    size = draw(st.integers(0, 7))
    columns: dict[str, pa.Array] = {}
    events: list[dict[str, Any]] = [{} for _ in range(size)]
    for name in draw(st.lists(st.sampled_from(["a", "b", "c.d", "e f"]), min_size=1, max_size=4, unique=True)):
        if draw(st.integers(0, 3)) == 0:
            column, values = draw(nested(size))
        else:
            kind, strategy = draw(st.sampled_from(COLUMNS))
            values = draw(st.lists(optional(strategy), min_size=size, max_size=size))
            column = column_of(values, kind)
        columns[name] = column
        for event, value in zip(events, values, strict=True):
            event[name] = value
    table = pa.table(columns)
    cut = draw(st.integers(0, size))
    if draw(st.booleans()):
        table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    start = draw(st.integers(0, size))
    return (table.slice(start), events[start:]) if draw(st.booleans()) else (table, events)


@settings(derandomize=True, deadline=None, max_examples=scaled(150))
@given(tables())
def test_any_table_reads_as_the_same_dicts(drawn: tuple[pa.Table, list[dict[str, Any]]]) -> None:
    table, events = drawn
    same(from_arrow(table), events)


# -------------------------------------------------------------------------------------------- every type inside every other

LEAVES: dict[str, pa.Array] = {
    "string": pa.array(["a", None, "b\u00e9"]),
    "large_string": pa.array(["a", None, "b"], pa.large_string()),
    "string_view": pa.array(["a", None, "b" * 20], pa.string_view()),
    "int64": pa.array([1, None, 2**53 + 1]),
    "double": pa.array([1.5, None, 3]),
    "half": pa.array([1.0, None, 2.0], pa.float16()),
    "bool": pa.array([True, None, False]),
    "timestamp": pa.array([1000, None, 3000], pa.timestamp("ns", "UTC")),
    "decimal": pa.array([Decimal("1.5"), None, Decimal(2)], pa.decimal128(30, 2)),
    "null": pa.nulls(3),
    "binary": pa.array([b"x", None, b"y"]),
    "list": pa.array([[1], None, []]),
    "struct": pa.array([{"p": 1, "q": "x"}, None, {"p": None, "q": "y"}]),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "map of views": pa.array([[("k", "v")], None, []], pa.map_(pa.string_view(), pa.string_view())),
    "uuid": pa.array([b"0" * 16, None, b"1" * 16], pa.uuid()),
    "bool8": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None, 0], pa.int8())),
    "sparse union": pa.UnionArray.from_sparse(
        pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array([*"abc"])]
    ),
    "dense union": pa.UnionArray.from_dense(
        pa.array([0, 1, 0], pa.int8()), pa.array([0, 0, 1], pa.int32()), [pa.array([1, 2]), pa.array(["a"])]
    ),
}


def wrapped(name: str, array: pa.Array) -> Iterator[tuple[str, pa.Array, list[Any]]]:
    """The array inside others, where Arrow can make them, and which element each of theirs is; None for null."""
    yield name, array, list(range(len(array)))
    for how, make, places in (
        (
            "dictionary",
            lambda: pa.DictionaryArray.from_arrays(pa.array([0, None, 2, 1], pa.int8()), array),
            [0, None, 2, 1],
        ),
        ("runs", lambda: pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5], pa.int16()), array), [0, 0, 1, 2, 2]),
    ):
        try:
            yield f"{how} of {name}", make(), places
        except pa.ArrowException:
            continue


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_type_inside_others_reads_as_the_same_values(leaf: str) -> None:
    """Arrow's own functions know only some types of values of dictionaries and runs."""

    def read(array: Any) -> list[Any]:
        batch = from_arrow(pa.table({"x": array}))
        rows: list[Any] = ["bad"] * batch.input_size
        for place, row in zip(
            range(batch.size) if batch.positions is None else batch.positions, batch.rows(), strict=True
        ):
            rows[place] = row
        return rows

    alone = read(LEAVES[leaf])
    for name, outer, places in wrapped(leaf, LEAVES[leaf]):
        for deeper, array, inner in wrapped(name, outer):
            values = [None if place is None or places[place] is None else alone[places[place]] for place in inner]
            expected = [{} if value is None else value for value in values]
            assert read(array) == expected, deeper
            assert read(array[1:]) == expected[1:], deeper
            assert read(pa.chunked_array([array, array[:0], array[:1]])) == [*expected, expected[0]], deeper


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_type_inside_others_as_ids_is_read_or_refused(leaf: str) -> None:
    for name, outer, _ in wrapped(leaf, LEAVES[leaf]):
        for _, array, _ in wrapped(name, outer):
            for column in (array, array[:1], array[:0]):
                try:
                    ids = from_arrow(pa.table({"x": column}), "x").ids
                except TableError:
                    continue
                assert all(isinstance(identity, str | int) for identity in ids.tolist())


def test_ids_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(TableError, match="an event id is a string that is not valid UTF-8"):
        from_arrow(pa.table({"x": bad_strings()}), "x")


def test_damaged_columns_are_refused() -> None:
    """Arrow does not check its buffers; reading beyond them would read other memory."""
    for offsets in ([0, 9, 1, 2], [0, 1, -7, 2]):
        buffers = [None, pa.py_buffer(np.array(offsets, dtype=np.int32).tobytes()), pa.py_buffer(b"abc")]
        with pytest.raises(TableError, match="damaged"):
            from_arrow(pa.table({"x": pa.Array.from_buffers(pa.string(), 3, buffers)}))
    for index in (5, -1):
        indices = pa.array([0, index], pa.int8())
        column = pa.DictionaryArray.from_arrays(indices, pa.array(["a"]), safe=False)
        with pytest.raises(TableError, match="damaged"):
            from_arrow(pa.table({"x": column}))


def test_a_character_cut_in_two_is_not_utf8() -> None:
    """All bytes together are valid."""
    offsets = pa.py_buffer(np.array([0, 1, 2, 3], dtype=np.int32).tobytes())
    column = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer("é!".encode())])
    assert problems(from_arrow(pa.table({"x": column}))) == [(0, "x"), (1, "x")]


@pytest.mark.parametrize("innermost", [5, {"n": 5}], ids=["number", "object"])
def test_lists_nest_as_deep_as_in_dicts(innermost: Any) -> None:
    for depth in (EVENT_DEPTH - 1, EVENT_DEPTH, EVENT_DEPTH + 1):
        value = innermost
        for _ in range(depth):
            value = [value]
        events = [{"x": value, "y": 1}]
        dicts, arrow = from_dicts(events), from_arrow(pa.Table.from_pylist(events))
        assert list(arrow.rows()) == list(dicts.rows())
        assert problems(arrow) == problems(dicts)
        assert bool(arrow.errors) == (depth + isinstance(innermost, dict) > EVENT_DEPTH)


def test_a_string_that_ends_within_a_character_because_a_null_holds_the_rest_is_invalid() -> None:
    offsets, data = np.array([0, 1, 2, 3], np.int32), "éa".encode()
    valid = pa.py_buffer(np.array([0b101], np.uint8))
    array = pa.StringArray.from_buffers(3, pa.py_buffer(offsets), pa.py_buffer(data), valid, 1)
    batch = from_arrow(pa.table({"s": array}))
    assert [(error.attribute, error.position) for error in batch.errors] == [("s", 0)]


def test_strings_of_a_slice_with_nulls() -> None:
    texts = ["a", None, "é", "", None, None, "long " * 9, "z", None, "b", "日本"]
    for start in range(len(texts)):
        batch = from_arrow(pa.table({"s": pa.array(texts)[start:]}))
        lanes = batch.lanes
        present = [(row, text) for row, text in enumerate(texts[start:]) if text is not None]
        assert [(row, lanes[0].plain(place)) for place, (row, _) in enumerate(present)] == present
        rows = lanes[0].rows
        assert (list(range(len(texts) - start)) if rows is None else rows.tolist()) == [row for row, _ in present]
