"""Events from dicts: every Python type that is a value, every one that is not, and what nesting does."""

from __future__ import annotations

import datetime
import enum
import subprocess
import sys
import types
from collections import OrderedDict
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_pubsub.errors import EventError
from ray_pubsub.model.dict_events import flatten, from_dicts
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.events import read_events
from ray_pubsub.model.values import INT64_MAX, INT64_MIN, Kind, Value
from tests.examples import scaled

UTC = datetime.UTC
PLUS_TWO = datetime.timezone(datetime.timedelta(hours=2))
DAY = 86_400_000_000


class Color(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class OldColor(str, enum.Enum):  # noqa: UP042 - its str() is not its value, unlike StrEnum's
    BLUE = "blue"


VALUES: list[tuple[Any, Kind, Any]] = [
    (0, Kind.NUMBER, 0),
    (INT64_MAX, Kind.NUMBER, INT64_MAX),
    (INT64_MIN, Kind.NUMBER, INT64_MIN),
    (2**53 + 1, Kind.NUMBER, 2**53 + 1),
    (1.5, Kind.NUMBER, 1.5),
    (0.1, Kind.NUMBER, 0.1),
    (-0.0, Kind.NUMBER, 0),
    (5.0, Kind.NUMBER, 5),
    (5e-324, Kind.NUMBER, 5e-324),
    (2.0**63, Kind.NUMBER, 2.0**63),
    (-(2.0**63), Kind.NUMBER, INT64_MIN),
    (1e300, Kind.NUMBER, 1e300),
    (-1e300, Kind.NUMBER, -1e300),
    (float("inf"), Kind.NUMBER, float("inf")),
    (float("-inf"), Kind.NUMBER, float("-inf")),
    (Level.HIGH, Kind.NUMBER, 3),
    ("", Kind.STRING, ""),
    ("a\0b", Kind.STRING, "a\0b"),
    ("\U0010ffff", Kind.STRING, "\U0010ffff"),
    (Color.RED, Kind.STRING, "red"),
    (OldColor.BLUE, Kind.STRING, "blue"),
    (True, Kind.BOOLEAN, True),
    (False, Kind.BOOLEAN, False),
    (np.int8(-5), Kind.NUMBER, -5),
    (np.int64(INT64_MIN), Kind.NUMBER, INT64_MIN),
    (np.uint64(INT64_MAX), Kind.NUMBER, INT64_MAX),
    (np.float16(0.5), Kind.NUMBER, 0.5),
    (np.float32(0.1), Kind.NUMBER, float(np.float32(0.1))),
    (np.float64(0.1), Kind.NUMBER, 0.1),
    (np.bool_(True), Kind.BOOLEAN, True),
    (np.str_("x"), Kind.STRING, "x"),
    (Decimal("0.1"), Kind.NUMBER, 0.1),
    (Decimal("0.10"), Kind.NUMBER, 0.1),
    (Decimal("-2.5"), Kind.NUMBER, -2.5),
    (Decimal("-0.0"), Kind.NUMBER, 0),
    (Decimal(INT64_MAX), Kind.NUMBER, INT64_MAX),
    (Decimal("1e3"), Kind.NUMBER, 1000),
    (Decimal("9007199254740993.000"), Kind.NUMBER, 2**53 + 1),
    (Decimal("0.1234567890123456"), Kind.NUMBER, 0.1234567890123456),
    (Decimal("Infinity"), Kind.NUMBER, float("inf")),
    (Decimal("-Infinity"), Kind.NUMBER, float("-inf")),
    (datetime.datetime(1970, 1, 1), Kind.TIMESTAMP, 0),
    (datetime.datetime(1970, 1, 1, 0, 0, 0, 1), Kind.TIMESTAMP, 1),
    (datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999), Kind.TIMESTAMP, -1),
    (datetime.datetime(1970, 1, 2, tzinfo=UTC), Kind.TIMESTAMP, DAY),
    (datetime.datetime(1970, 1, 2, 2, tzinfo=PLUS_TWO), Kind.TIMESTAMP, DAY),
    (datetime.datetime.min, Kind.TIMESTAMP, -719_162 * DAY),
    (datetime.datetime.max, Kind.TIMESTAMP, 2_932_897 * DAY - 1),
    (datetime.datetime.min.replace(tzinfo=PLUS_TWO), Kind.TIMESTAMP, -719_162 * DAY - DAY // 12),
    (datetime.date(1970, 1, 2), Kind.TIMESTAMP, DAY),
    (datetime.date(1969, 12, 31), Kind.TIMESTAMP, -DAY),
    (pd.Timestamp("1970-01-02"), Kind.TIMESTAMP, DAY),
    (pd.Timestamp("1970-01-02 02:00", tz=PLUS_TWO), Kind.TIMESTAMP, DAY),
    (pd.Timestamp("2024-07-01 12:00", tz="Europe/Berlin"), Kind.TIMESTAMP, 1_719_828_000_000_000),
    (pd.Timestamp(1_999, unit="ns"), Kind.TIMESTAMP, 1),
    (pd.Timestamp(-1, unit="ns"), Kind.TIMESTAMP, -1),
    (np.datetime64("1970-01-02"), Kind.TIMESTAMP, DAY),
    (np.datetime64("1970", "Y"), Kind.TIMESTAMP, 0),
    (np.datetime64(-1, "ns"), Kind.TIMESTAMP, -1),
    (np.datetime64(1_999, "ns"), Kind.TIMESTAMP, 1),
]


@pytest.mark.parametrize(("raw", "kind", "plain"), VALUES, ids=repr)
def test_values(raw: Any, kind: Kind, plain: Any) -> None:
    (row,) = from_dicts([{"x": raw}]).rows()
    assert row == {"x": Value(kind, plain)}
    assert row["x"].kind is kind
    assert flatten({"x": raw}) == row


@pytest.mark.parametrize(
    "raw",
    [
        None,
        float("nan"),
        np.float32("nan"),
        Decimal("NaN"),
        Decimal("sNaN"),
        pd.NaT,
        pd.NA,
        np.datetime64("NaT"),
        {},
        {"y": None},
    ],
    ids=repr,
)
def test_absent(raw: Any) -> None:
    assert from_dicts([{"x": raw, "z": 1}]).rows() == [{"z": Value(Kind.NUMBER, 1)}]


@pytest.mark.parametrize(
    "raw",
    [
        b"bytes",
        bytearray(b"x"),
        [b"1"],
        [{"a": object()}],
        {1},
        1j,
        object(),
        int,
        datetime.time(1),
        datetime.timedelta(1),
        pd.Timedelta(1),
        pd.Period("2024", "D"),
        np.bytes_(b"x"),
        np.complex128(1),
        np.timedelta64(1, "s"),
    ],
    ids=lambda raw: type(raw).__name__,
)
def test_other_types_are_errors_that_name_the_attribute(raw: Any) -> None:
    with pytest.raises(EventError) as caught:
        flatten({"fine": 1, "outer": {"inner": raw}})
    assert caught.value.attribute == "outer.inner"
    assert type(raw).__name__ in caught.value.reason
    assert "'outer.inner'" in str(caught.value)


@pytest.mark.parametrize(
    "raw",
    [2**63, -(2**63) - 1, 10**5000, np.uint64(2**63), Decimal(2**63), Decimal("1e400"), Decimal("-1e19")],
    ids=["2**63", "-2**63-1", "10**5000", "uint64", "Decimal", "Decimal 1e400", "Decimal -1e19"],
)
def test_integers_beyond_64_bits(raw: Any) -> None:
    with pytest.raises(EventError, match=r"'x': the (integer|decimal) .* does not fit 64 bits"):
        flatten({"x": raw})


@pytest.mark.parametrize(
    "digits", ["0.12345678901234567890", "123456789012345678.5", "1e-400", "0.1000000000000000055"]
)
def test_decimals_with_more_digits_than_a_float(digits: str) -> None:
    """Rounding would make `x = 0.1` true of a number that is not 0.1."""
    with pytest.raises(EventError, match=r"'x': the decimal .* has more digits"):
        flatten({"x": Decimal(digits)})


def test_a_decimal_with_a_huge_exponent_is_refused_at_once() -> None:
    """Writing out its billion digits would take all memory: one event could stop a server."""
    program = (
        "import resource; from decimal import Decimal\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (10, 10))\n"  # seconds of its own, however busy the machine is
        "from ray_pubsub.model.dict_events import from_dicts\n"
        "print([error.attribute for error in from_dicts([{'x': Decimal('1E+999999999')}]).errors])"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=True)
    assert finished.stdout.strip() == "['x']"


def test_a_lone_surrogate_is_no_string() -> None:
    with pytest.raises(EventError, match="'x': the string has a lone surrogate at 2"):
        flatten({"x": "ab\ud800"})


def test_times_beyond_the_calendar_of_python() -> None:
    """64 bits of microseconds reach to the year 294247; Python's datetime ends with 9999."""
    year = np.datetime64("20000-01-01", "s")
    count = int(year.astype(np.int64)) * 1_000_000
    batch = from_dicts([{"t": year}, {"t": pd.Timestamp(year)}])
    assert batch.errors == []
    assert batch.rows() == [{"t": Value(Kind.TIMESTAMP, count)}] * 2


@pytest.mark.parametrize(
    "raw",
    [np.datetime64(2**62, "s"), np.datetime64(-(2**62), "s"), np.datetime64(300_000, "Y")],
    ids=["seconds", "negative seconds", "years"],
)
def test_times_beyond_64_bits_are_refused(raw: Any) -> None:
    """Never read as another moment."""
    batch = from_dicts([{"t": raw}, {"t": datetime.date(1970, 1, 2)}])
    assert [(error.position, error.attribute) for error in batch.errors] == [(0, "t")]
    assert batch.rows() == [{"t": Value(Kind.TIMESTAMP, DAY)}]


# ------------------------------------------------------------------------------------------------------------- nesting


def test_nested_dicts_are_flattened_with_dots() -> None:
    event = {"a": {"b": {"c": 1}, "d": "x"}, "e.f": True, "g": OrderedDict(h=types.MappingProxyType({"i": 2}))}
    assert flatten(event) == {
        "a.b.c": Value(Kind.NUMBER, 1),
        "a.d": Value(Kind.STRING, "x"),
        "e.f": Value(Kind.BOOLEAN, True),
        "g.h.i": Value(Kind.NUMBER, 2),
    }


@pytest.mark.parametrize(
    "event",
    [{"a.b": 1, "a": {"b": 2}}, {"a": {"b": 2}, "a.b": 1}, {"a": {"b.c": 1, "b": {"c": "x"}}}],
    ids=["dotted first", "nested first", "both nested"],
)
def test_an_attribute_given_twice(event: dict[str, Any]) -> None:
    with pytest.raises(EventError, match="given twice"):
        flatten(event)


def test_given_twice_but_absent_once() -> None:
    assert flatten({"a.b": None, "a": {"b": 2}}) == {"a.b": Value(Kind.NUMBER, 2)}
    assert flatten({"a": {"b": 2}, "a.b": float("nan")}) == {"a.b": Value(Kind.NUMBER, 2)}


@pytest.mark.parametrize("name", [1, None, b"x", ("a",), True, 1.5], ids=repr)
def test_names_are_strings(name: Any) -> None:
    with pytest.raises(EventError, match="an attribute's name is a str") as caught:
        flatten({"outer": {name: 1}})
    assert caught.value.attribute == f"outer.{name}"


def test_a_dict_that_holds_itself() -> None:
    event: dict[str, Any] = {"x": 1}
    event["self"] = event
    with pytest.raises(EventError, match="nested more than") as caught:
        flatten(event)
    assert caught.value.attribute is not None
    assert caught.value.attribute.startswith("self.self.")
    assert len(caught.value.attribute) <= 100


def test_deep_but_not_too_deep() -> None:
    event: dict[str, Any] = {"x": 1}
    for _ in range(30):
        event = {"a": event}
    assert flatten(event) == {"a." * 30 + "x": Value(Kind.NUMBER, 1)}


@pytest.mark.parametrize("event", [None, 5, "x", [("a", 1)], object()], ids=lambda event: type(event).__name__)
def test_an_event_is_a_dict(event: Any) -> None:
    with pytest.raises(EventError, match="an event is a dict") as caught:
        flatten(event)
    assert caught.value.attribute is None


# --------------------------------------------------------------------------------------------------------------- batches


def test_bad_events_are_reported_by_position_and_the_others_read() -> None:
    batch = from_dicts([{"x": 1}, {"x": b"1"}, {"x": "s"}, 5, {"y": [b"1"]}, {}])  # type: ignore[list-item]
    assert batch.size == 3
    assert batch.input_size == 6
    assert batch.positions is not None
    assert batch.positions.tolist() == batch.ids.tolist() == [0, 2, 5]
    assert batch.rows() == [{"x": Value(Kind.NUMBER, 1)}, {"x": Value(Kind.STRING, "s")}, {}]
    assert [(error.position, error.attribute) for error in batch.errors] == [(1, "x"), (3, None), (4, "y")]
    assert str(batch.errors[0]).startswith("event 1: attribute 'x': ")


def test_a_bad_event_leaves_nothing_of_itself() -> None:
    batch = from_dicts([{"good": 1, "x": b""}, {"x": 2}])
    assert batch.rows() == [{"x": Value(Kind.NUMBER, 2)}]
    assert {lane.attribute for lane in batch.lanes} == {"x"}


def test_all_events_good_or_none_at_all() -> None:
    assert from_dicts([{"x": 1}]).positions is None
    empty = from_dicts([])
    assert (empty.size, empty.input_size, empty.rows(), empty.errors) == (0, 0, [], [])
    bad = from_dicts([{"x": b""}])
    assert (bad.size, bad.input_size, bad.rows(), len(bad.errors)) == (0, 1, [], 1)


def test_a_lane_per_attribute_and_kind() -> None:
    batch = from_dicts([{"x": 1}, {"x": "a"}, {"x": 2.5}, {"x": "a"}, {"x": True}, {}])
    lanes = {(lane.attribute, lane.kind): lane for lane in batch.lanes}
    assert set(lanes) == {("x", Kind.NUMBER), ("x", Kind.STRING), ("x", Kind.BOOLEAN)}
    numbers, strings = lanes["x", Kind.NUMBER], lanes["x", Kind.STRING]
    assert numbers.rows is not None
    assert strings.rows is not None
    assert numbers.rows.tolist() == [0, 2]
    assert strings.rows.tolist() == [1, 3]
    assert strings.strings is not None
    assert [strings.plain(place) for place in range(2)] == ["a", "a"]


def test_a_lane_of_every_row_needs_no_rows() -> None:
    (lane,) = from_dicts([{"x": 1}, {"x": 2}]).lanes
    assert lane.rows is None
    assert lane.rest is None
    assert len(lane) == 2


numbers = st.one_of(
    st.integers(INT64_MIN, INT64_MAX),
    st.floats(allow_nan=False),
    st.sampled_from([2**53, 2**53 + 1, float(2**53), 2.0**63, -(2.0**63), INT64_MAX, INT64_MIN, -0.0, -0.5, 0.5]),
)


@settings(derandomize=True, deadline=None, max_examples=scaled(150))
@given(st.lists(numbers, min_size=1, max_size=6))
def test_keys_order_numbers_exactly(values: list[int | float]) -> None:
    """(whole, rest) compares as Python compares ints and floats: exactly."""
    (lane,) = from_dicts([{"x": value} for value in values]).lanes
    rest = np.zeros(len(values)) if lane.rest is None else lane.rest
    keys = list(zip(lane.whole.tolist(), rest.tolist(), strict=True))
    for left, left_key in zip(values, keys, strict=True):
        for right, right_key in zip(values, keys, strict=True):
            assert (left < right, left == right) == (left_key < right_key, left_key == right_key)
    assert [lane.plain(place) for place in range(len(values))] == values


# ------------------------------------------------------------------------------------------------------------------- ids


def test_event_ids() -> None:
    batch = from_dicts([{"id": "a", "x": 1}, {"id": 7}, {"x": 1}, {"id": True}, {"id": 1.0}], event_id="id")
    assert batch.ids.tolist() == ["a", 7]
    assert [(error.position, error.attribute) for error in batch.errors] == [(2, "id"), (3, "id"), (4, "id")]
    assert batch.rows()[0]["id"] == Value(Kind.STRING, "a")  # an id is an attribute too


def test_event_ids_of_one_type() -> None:
    ids = from_dicts([{"id": 5}, {"id": -1}], event_id="id").ids
    assert ids.dtype == np.int64
    assert ids.tolist() == [5, -1]


# ------------------------------------------------------------------------------------------------------- read_events


def test_read_events_takes_any_iterable_of_dicts() -> None:
    expected = [{"x": Value(Kind.NUMBER, 1)}, {"x": Value(Kind.NUMBER, 2)}]
    assert read_events([{"x": 1}, {"x": 2}]).rows() == expected
    assert read_events({"x": value} for value in (1, 2)).rows() == expected
    assert read_events(({"x": 1}, {"x": 2})).rows() == expected
    assert read_events({"x": 1}).rows() == expected[:1]


def test_read_events_passes_a_batch_through() -> None:
    batch = from_dicts([{"x": 1}])
    assert isinstance(batch, EventBatch)
    assert read_events(batch) is batch


@pytest.mark.parametrize("events", ["abc", b"abc", 5, None, object()], ids=lambda events: type(events).__name__)
def test_read_events_of_something_else(events: Any) -> None:
    with pytest.raises(EventError, match="events are a list of dicts"):
        read_events(events)


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"a": 1},
        {"a": 2**63 - 1, "b": -(2**63), "c": 2.5, "d": -0.25, "e": 1e300, "f": -1e300, "g": 0.0, "h": -0.0, "i": 3.0},
        {"s": "x", "t": "", "b": True, "n": None, "deep": {"er": "x", "x": 7}},
        {
            "when": datetime.datetime(2024, 5, 6, 7, 8, 9, 10, tzinfo=UTC),
            "v": False,
            "a": np.float32(1.5),
            "i": np.int8(-3),
        },
    ],
)
def test_an_event_alone_is_what_it_is_among_others(event: dict[str, Any]) -> None:
    """One event is read on a way of its own."""
    alone, among = from_dicts([event]), from_dicts([event, event])
    assert alone.rows() == among.rows()[:1]
    assert alone.layout() == among.layout()
    assert (alone.size, alone.ids.tolist(), alone.positions, alone.errors) == (1, [0], None, [])
    ready, joined = alone.cells(), EventBatch(1, alone.lanes, alone.input_ids).cells()
    for name in ("offsets", "rows", "whole", "rest"):
        assert getattr(ready, name).dtype == getattr(joined, name).dtype
        assert getattr(ready, name).tolist() == getattr(joined, name).tolist()


def test_a_bad_event_alone() -> None:
    batch = from_dicts([{"a": object()}])
    assert (batch.size, batch.lanes, batch.input_size, [error.position for error in batch.errors]) == (0, [], 1, [0])
    assert batch.positions is not None
    assert batch.positions.tolist() == []
