"""MatchBatch: the matches in columns, by event, as pairs, as tables; bad events keep their place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ray_pubsub import MatchBatch, MatchIndex
from ray_pubsub.errors import TableError


def index_of(**expressions: str) -> MatchIndex:
    index = MatchIndex()
    index.add_many(expressions.keys(), expressions.values())
    return index


EVENTS = [{"id": "e0", "x": 5}, {"id": "e1", "x": 50}, {"id": "e2", "x": -1}, {"id": "e3"}]


@pytest.fixture
def batch() -> MatchBatch:
    return index_of(small="x < 10", positive="x > 0").match_many(EVENTS)


def test_columns(batch: MatchBatch) -> None:
    assert batch.offsets.tolist() == [0, 2, 3, 4, 4]
    assert batch.subscription_ids.tolist() == ["small", "positive", "positive", "small"]
    assert batch.event_ids.tolist() == [0, 1, 2, 3]
    assert batch.priorities is None
    assert batch.errors == []


def test_length_and_counts(batch: MatchBatch) -> None:
    assert len(batch) == 4
    assert batch.counts().tolist() == [2, 1, 1, 0]
    assert "4 matches of 4 events" in repr(batch)


def test_by_event(batch: MatchBatch) -> None:
    assert [batch[place] for place in range(4)] == [["small", "positive"], ["positive"], ["small"], []]
    assert [batch[place] for place in (-1, -4)] == [[], ["small", "positive"]]
    assert list(batch) == [["small", "positive"], ["positive"], ["small"], []]


@pytest.mark.parametrize("place", [4, -5, 100])
def test_no_such_event(batch: MatchBatch, place: int) -> None:
    with pytest.raises(IndexError):
        batch[place]


def test_pairs(batch: MatchBatch) -> None:
    assert list(batch.pairs()) == [(0, "small"), (0, "positive"), (1, "positive"), (2, "small")]


def test_to_arrow(batch: MatchBatch) -> None:
    table = batch.to_arrow()
    assert table.schema == pa.schema({"event_id": pa.int64(), "subscription_id": pa.string()})
    assert table.to_pydict() == {
        "event_id": [0, 0, 1, 2],
        "subscription_id": ["small", "positive", "positive", "small"],
    }


def test_to_pandas(batch: MatchBatch) -> None:
    expected = pd.DataFrame({"event_id": [0, 0, 1, 2], "subscription_id": ["small", "positive", "positive", "small"]})
    pd.testing.assert_frame_equal(batch.to_pandas(), expected, check_dtype=False)


def test_data_and_tags_are_columns_on_request() -> None:
    index = MatchIndex()
    index.add(1, "x > 0", data={"title": "one"}, tags=["b", "a"])
    index.add(2, "x > 1", data=[1, [2]])
    index.add(3, "x > 1", tags=["c"])
    batch = index.match_many([{"x": 2}, {"x": 1}, {}])
    table = batch.to_arrow(data=True)
    assert table.column_names == ["event_id", "subscription_id", "data", "tags"]
    assert table.schema.field("tags").type == pa.list_(pa.string())
    assert sorted(table.select(["event_id", "subscription_id", "data", "tags"]).to_pylist(), key=str) == [
        {"event_id": 0, "subscription_id": 1, "data": '{"title":"one"}', "tags": ["a", "b"]},
        {"event_id": 0, "subscription_id": 2, "data": "[1,[2]]", "tags": []},
        {"event_id": 0, "subscription_id": 3, "data": None, "tags": ["c"]},
        {"event_id": 1, "subscription_id": 1, "data": '{"title":"one"}', "tags": ["a", "b"]},
    ]
    frame = batch.to_pandas(data=True)
    rows = sorted(zip(frame["subscription_id"], frame["data"], frame["tags"], strict=True), key=str)
    assert rows[1:] == [(1, {"title": "one"}, ("a", "b")), (2, [1, [2]], ()), (3, None, ("c",))]
    assert index.match_many([{}]).to_arrow(data=True).num_rows == 0
    assert batch.to_arrow().column_names == ["event_id", "subscription_id"]


def test_priorities_are_repeated_for_each_match() -> None:
    batch = MatchBatch(
        offsets=np.array([0, 2, 2, 3]),
        subscription_ids=np.array([1, 2, 3]),
        event_ids=np.array([10, 11, 12]),
        priorities=np.array(["low", "high", "critical"], dtype=object),
    )
    assert batch.to_arrow().to_pydict() == {
        "event_id": [10, 10, 12],
        "subscription_id": [1, 2, 3],
        "priority": ["low", "low", "critical"],
    }


@pytest.mark.parametrize(
    ("ids", "column"),
    [
        ([1, 2], pa.array([1, 2], pa.int64())),
        (["a", "b"], pa.array(["a", "b"], pa.string())),
    ],
    ids=["ints", "strings"],
)
def test_ids_of_one_type_keep_it_in_arrow(ids: list[Any], column: pa.Array) -> None:
    index = MatchIndex()
    index.add_many(ids, ["true", "true"])
    batch = index.match_many([{}])
    assert [(type(identity), identity) for identity in batch[0]] == [(type(identity), identity) for identity in ids]
    assert batch.to_arrow().column("subscription_id").combine_chunks() == column


def test_ids_of_two_types_are_never_made_one() -> None:
    index = MatchIndex()
    index.add_many([1, "1"], ["true", "true"])
    batch = index.match_many([{}])
    assert batch.to_pandas()["subscription_id"].tolist() == [1, "1"]
    with pytest.raises(TableError, match="both str and int"):
        batch.to_arrow()


def test_matched_ints_are_ints_in_arrow_although_others_are_strings() -> None:
    index = MatchIndex()
    index.add_many([1, "a"], ["x = 1", "x = 2"])
    assert index.match_many([{"x": 1}]).to_arrow().column("subscription_id").type == pa.int64()


def test_nothing_matched() -> None:
    batch = index_of(never="false").match_many(EVENTS)
    assert (len(batch), list(batch.pairs()), batch.to_arrow().num_rows) == (0, [], 0)
    assert batch.to_pandas().empty
    assert list(batch.to_pandas().columns) == ["event_id", "subscription_id"]
    assert batch.counts().tolist() == [0, 0, 0, 0]


def test_no_events() -> None:
    batch = index_of(always="true").match_many([])
    assert (len(batch), list(batch), batch.counts().tolist()) == (0, [], [])
    with pytest.raises(IndexError):
        batch[0]


# ------------------------------------------------------------------------------------------------------------- event ids


@pytest.mark.parametrize(
    "events", [EVENTS, pa.Table.from_pylist(EVENTS), pd.DataFrame(EVENTS)], ids=["dicts", "arrow", "pandas"]
)
def test_event_ids_are_taken_from_an_attribute(events: Any) -> None:
    batch = index_of(small="x < 10").match_many(events, event_id="id")
    assert batch.event_ids.tolist() == ["e0", "e1", "e2", "e3"]
    assert list(batch.pairs()) == [("e0", "small"), ("e2", "small")]
    assert batch.to_arrow().column("event_id").to_pylist() == ["e0", "e2"]


def test_an_event_without_its_id_is_bad() -> None:
    batch = index_of(always="true").match_many([{"id": "a"}, {}, {"id": "c"}], event_id="id")
    assert [batch[place] for place in range(3)] == [["always"], [], ["always"]]
    assert [(error.position, error.attribute) for error in batch.errors] == [(1, "id")]
    assert list(batch.pairs()) == [("a", "always"), ("c", "always")]


# ------------------------------------------------------------------------------------------------------------- bad events

BAD: list[dict[str, Any]] = [{"x": 1}, {"x": b"?"}, {"x": 1}, {"x": b"?"}]


@pytest.mark.parametrize(
    "events",
    [
        BAD,
        pa.table({"x": [1, None, 1, None], "y": pa.array([None, b"?", None, b"?"])}),
        pd.DataFrame({"x": pd.Series([event["x"] for event in BAD], dtype=object)}),
    ],
    ids=["dicts", "arrow", "pandas"],
)
def test_bad_events_keep_their_place_and_match_nothing(events: Any) -> None:
    batch = index_of(one="x = 1", always="true", tested="y = 1").match_many(events, strict=True)
    assert [sorted(batch[place]) for place in range(4)] == [["always", "one"], [], ["always", "one"], []]
    assert batch.event_ids.tolist() == [0, 1, 2, 3]
    assert batch.offsets.tolist() == [0, 2, 2, 4, 4]
    assert [error.position for error in batch.errors] == [1, 3]
    assert sorted(batch.pairs()) == [(0, "always"), (0, "one"), (2, "always"), (2, "one")]
    assert "2 bad events" in repr(batch)


def test_all_events_bad() -> None:
    batch = index_of(always="true").match_many([{"x": b"?"}, {"x": b"?"}], strict=True)
    assert (len(batch), list(batch), len(batch.errors)) == (0, [[], []], 2)


@pytest.mark.parametrize(("first", "second", "third"), [("a", "b", "c"), (100, 101, 102)], ids=["strings", "ints"])
def test_a_bad_event_has_no_id_of_another_event(first: Any, second: Any, third: Any) -> None:
    """Its own id, or none: not its position, which looks like an id and may be another event's."""
    events = [{"id": first, "x": 1}, {"id": second, "x": [1]}, {"id": third, "x": 1}]
    batch = index_of(one="x = 1").match_many(events, event_id="id")
    found = batch.event_ids.tolist()
    assert (found[0], found[2]) == (first, third)
    assert found[1] in (second, None)
