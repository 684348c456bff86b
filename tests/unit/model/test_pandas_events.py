"""Events from pandas: typed columns go by way of Arrow, columns of mixed objects row by row, with the same meaning."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_pubsub import MatchIndex
from ray_pubsub.errors import RayPubSubError, TableError
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.events import read_events
from ray_pubsub.model.values import INT64_MAX, Kind, Value
from tests.examples import scaled

DAY = 86_400_000_000
PLUS_TWO = datetime.timezone(datetime.timedelta(hours=2))


def objects(*values: Any) -> pd.DataFrame:
    """A column that pandas knows nothing about."""
    return pd.DataFrame({"x": pd.Series(list(values), dtype=object)})


def plains(frame: pd.DataFrame) -> list[Any]:
    batch = read_events(frame)
    assert batch.errors == []
    return [row["x"].plain if "x" in row else None for row in batch.rows()]


def problems(batch: EventBatch) -> list[tuple[int | None, str | None]]:
    return [(error.position, error.attribute) for error in batch.errors]


def test_typed_columns() -> None:
    frame = pd.DataFrame(
        {
            "i": pd.array([2**53 + 1, None], dtype="Int64"),
            "f": [0.1, float("nan")],
            "s": ["a", None],
            "c": pd.Categorical(["p", None]),
            "b": pd.array([True, None], dtype="boolean"),
            "t": [pd.Timestamp("1970-01-02"), pd.NaT],
            "z": pd.to_datetime(["1970-01-02", None]).tz_localize("UTC").tz_convert("Asia/Tokyo"),
        }
    )
    assert read_events(frame).rows() == [
        {
            "i": Value(Kind.NUMBER, 2**53 + 1),
            "f": Value(Kind.NUMBER, 0.1),
            "s": Value(Kind.STRING, "a"),
            "c": Value(Kind.STRING, "p"),
            "b": Value(Kind.BOOLEAN, True),
            "t": Value(Kind.TIMESTAMP, DAY),
            "z": Value(Kind.TIMESTAMP, DAY),
        },
        {},
    ]


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_integers(dtype: str) -> None:
    assert plains(pd.DataFrame({"x": np.array([0, 100], dtype=dtype)})) == [0, 100]


def test_the_index_is_no_attribute() -> None:
    frame = pd.DataFrame({"x": [1, 2]}, index=pd.Index([10, 20], name="row"))
    batch = read_events(frame)
    assert batch.rows() == [{"x": Value(Kind.NUMBER, 1)}, {"x": Value(Kind.NUMBER, 2)}]
    assert batch.ids.tolist() == [0, 1]


def test_mixed_objects_are_read_row_by_row() -> None:
    batch = read_events(objects(1, "a", None, 2.5, True, datetime.date(1970, 1, 2), [1], b"x"))
    assert problems(batch) == [(7, "x")]
    assert batch.rows() == [
        {"x": Value(Kind.NUMBER, 1)},
        {"x": Value(Kind.STRING, "a")},
        {},
        {"x": Value(Kind.NUMBER, 2.5)},
        {"x": Value(Kind.BOOLEAN, True)},
        {"x": Value(Kind.TIMESTAMP, DAY)},
        {"x": Value(Kind.LIST, (Value(Kind.NUMBER, 1),))},
    ]


def test_objects_of_one_type() -> None:
    assert plains(objects(1, None, 2**53 + 1)) == [1, None, 2**53 + 1]
    assert plains(objects("a", None, "")) == ["a", None, ""]
    assert plains(objects(True, None)) == [True, None]
    assert plains(objects(Decimal("1.5"), None, Decimal("0.10"))) == [1.5, None, 0.1]
    assert plains(objects(datetime.datetime(1970, 1, 2), pd.NaT)) == [DAY, None]


def test_ints_and_floats_in_one_column_stay_exact() -> None:
    assert plains(objects(2**53 + 1, 2.5, float("nan"))) == [2**53 + 1, 2.5, None]


def test_dates_and_datetimes_in_one_column() -> None:
    """Arrow would cut the time of day off if the date came first."""
    evening = datetime.datetime(1970, 1, 2, 18)
    assert plains(objects(evening, datetime.date(1970, 1, 2))) == [DAY + DAY * 3 // 4, DAY]
    assert plains(objects(datetime.date(1970, 1, 2), evening)) == [DAY, DAY + DAY * 3 // 4]


def test_zones_in_one_column() -> None:
    naive, aware = datetime.datetime(1970, 1, 2, 2), datetime.datetime(1970, 1, 2, 2, tzinfo=PLUS_TWO)
    assert plains(objects(naive, aware)) == [DAY + DAY // 12, DAY]
    assert plains(objects(aware, naive)) == [DAY, DAY + DAY // 12]


def test_integers_beyond_64_bits_make_their_row_bad() -> None:
    for frame in (objects(2**70, 1), objects(2**63, -1), pd.DataFrame({"x": np.array([2**63, 1], dtype=np.uint64)})):
        batch = read_events(frame)
        assert problems(batch) == [(0, "x")]
        assert batch.size == 1


def test_nested_dicts_in_a_column() -> None:
    batch = read_events(objects({"a": 1}, {"b": {"c": "x"}}, None, {"a": 2.5}))
    assert batch.rows() == [
        {"x.a": Value(Kind.NUMBER, 1)},
        {"x.b.c": Value(Kind.STRING, "x")},
        {},
        {"x.a": Value(Kind.NUMBER, 2.5)},
    ]
    assert read_events(objects({"a": 1}, {"a": "s"})).rows() == [
        {"x.a": Value(Kind.NUMBER, 1)},
        {"x.a": Value(Kind.STRING, "s")},
    ]


@pytest.mark.parametrize(
    "frame",
    [
        objects([b"x"], 2),
        objects([b"x"], None),
        objects(b"x", None),
        objects(object(), 2),
        objects(1j, 2),
        objects(datetime.time(1), None),
        objects(datetime.timedelta(1), None),
    ],
    ids=["list", "only lists", "bytes", "object", "complex", "time", "timedelta"],
)
def test_bad_objects_are_reported_by_position(frame: pd.DataFrame) -> None:
    batch = read_events(frame)
    assert problems(batch) == [(0, "x")]
    assert (batch.size, batch.input_size) == (1, 2)


def test_a_lone_surrogate_makes_its_row_bad() -> None:
    try:
        batch = read_events(objects("\ud800", "a"))
    except UnicodeError:  # shown without the text, which pytest-xdist could not send
        pytest.fail("one string that is not Unicode stopped the batch", pytrace=False)
    assert problems(batch) == [(0, "x")]
    assert batch.rows() == [{"x": Value(Kind.STRING, "a")}]


@pytest.mark.parametrize(
    "column",
    [pd.period_range("2024-01-01", periods=2, freq="D"), pd.timedelta_range("1s", periods=2)],
    ids=["period", "timedelta"],
)
def test_columns_that_are_not_values(column: Any) -> None:
    """A period is stored as a number, but it is none."""
    assert problems(read_events(pd.DataFrame({"x": column}))) == [(0, "x"), (1, "x")]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame([[1, 2]], columns=["x", "x"]),
        pd.DataFrame({"x": pd.arrays.SparseArray([0, 0, 1])}),
    ],
    ids=["two columns of one name", "sparse"],
)
def test_frames_that_arrow_refuses(frame: pd.DataFrame) -> None:
    """Read or refused with an error of ours, never with one of another library."""
    try:
        read_events(frame)
    except RayPubSubError as error:
        assert isinstance(error, TableError)


def test_empty_frames() -> None:
    assert read_events(pd.DataFrame()).size == 0
    assert read_events(pd.DataFrame({"x": []})).size == 0
    assert read_events(pd.DataFrame({"x": [1, 2]}).iloc[:0]).size == 0


def test_event_ids() -> None:
    frame = pd.DataFrame({"id": [7, 8], "name": ["p", "q"], "x": pd.Series([1, "a"], dtype=object)})
    assert read_events(frame, "id").ids.tolist() == [7, 8]
    assert read_events(frame, "name").ids.tolist() == ["p", "q"]
    assert read_events(frame.drop(columns="x"), "name").ids.tolist() == ["p", "q"]


def test_matching_a_frame() -> None:
    index = MatchIndex()
    index.add("big", f"x = {INT64_MAX}")
    index.add("named", "name like 'p%' and x is null")
    frame = pd.DataFrame({"x": pd.array([INT64_MAX, None, 5], dtype="Int64"), "name": ["q", "pq", "p"]})
    assert list(index.match_many(frame, event_id="name").pairs()) == [("q", "big"), ("pq", "named")]


def test_typed_columns_beside_mixed_ones_are_read_as_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"id": ["p", "q", "r"], "n": [1, 2, 3], "f": [0.5, float("nan"), 2.0]})
    frame["day"] = pd.Series([datetime.date(1970, 1, 2), None, datetime.datetime(1970, 1, 3)], dtype=object)
    frame["deep"] = pd.Series([{"a": 1}, {"a": b"x"}, [1]], dtype=object)
    frame["big"] = pd.Series([2**70, 1, 2], dtype=object)
    expected = from_dicts(frame.to_dict("records"), "id", strict=False)
    seen: list[set[str]] = []

    def noted(events: Any, *rest: Any, **named: Any) -> EventBatch:
        seen.append(set(events[0]))
        return from_dicts(events, *rest, **named)

    monkeypatch.setattr("ray_pubsub.model.events.from_dicts", noted)
    batch = read_events(frame, "id", strict=False)
    assert seen == [{"day", "deep", "big"}]
    assert batch.rows() == expected.rows()
    assert batch.ids.tolist() == ["p", "q", "r"]
    found = [(warning.position, warning.attribute) for warning in batch.warnings]
    assert found == [(0, "big"), (1, "deep.a")] == [(each.position, each.attribute) for each in expected.warnings]
    assert problems(read_events(frame, "id")) == [(0, "big"), (1, "deep.a")]  # strict


def test_an_attribute_in_a_typed_and_a_mixed_column() -> None:
    frame = pd.DataFrame({"x.a": [1, 2], "x": pd.Series([{"a": 1}, {"b": 1}], dtype=object)})
    assert problems(read_events(frame)) == [(0, "x.a")]
    batch = read_events(frame, strict=False)
    assert batch.rows() == [{}, {"x.a": Value(Kind.NUMBER, 2), "x.b": Value(Kind.NUMBER, 1)}]
    assert [(each.position, each.attribute) for each in batch.warnings] == [(0, "x.a")]


values = st.one_of(
    st.none(),
    st.integers(-(2**64), 2**64),
    st.floats(),
    st.text(max_size=3),
    st.booleans(),
    st.datetimes(timezones=st.sampled_from([None, datetime.UTC, PLUS_TWO])),
    st.dates(),
    st.binary(max_size=1),
)


@settings(derandomize=True, deadline=None, max_examples=scaled(75))
@given(st.lists(values, max_size=4))
def test_a_column_of_objects_reads_as_the_same_dicts(column: list[Any]) -> None:
    expected = from_dicts([{"x": value} for value in column])
    batch = read_events(objects(*column))
    assert problems(batch) == problems(expected)
    assert batch.rows() == expected.rows()
    beside = read_events(objects(*column).assign(y=1), strict=False)
    expected = from_dicts([{"x": value, "y": 1} for value in column], strict=False)
    assert beside.rows() == expected.rows()
    assert list(map(str, beside.warnings)) == list(map(str, expected.warnings))
