"""What a publication gave, in columns: of several shards, of several portions, with bad events in between."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from actors.client.publish_result import PublishResult
from actors.transport.publish_reply import Delivered
from ray_pubsub.errors import EventError, OverloadedError
from ray_pubsub.model.metadata import Metadata
from ray_pubsub.sharding.merging import ShardMatches, packed_ids

NAMES = {1: "a", 2: "b", 7: "g"}


def matches(*events: list[tuple[Any, int]]) -> ShardMatches:
    """Of a shard: per event, ids and subscribers."""
    rows = [match for event in events for match in event]
    kind = object if any(isinstance(identity, str) for identity, _ in rows) else np.int64
    return ShardMatches.each(
        np.concatenate([[0], np.cumsum([len(event) for event in events])]).astype(np.int64),
        packed_ids(np.array([identity for identity, _ in rows], kind)),
        np.array([code for _, code in rows], np.int32),
    )


def result(ids: list[Any], *parts: ShardMatches, **more: Any) -> PublishResult:
    levels = np.array([place % 2 for place in range(len(ids))], np.uint8)
    return PublishResult(np.array(ids, object), levels, ("low", "high"), list(parts), names=NAMES, **more)


def test_the_answers_of_shards_are_one() -> None:
    found = result(["e1", "e2"], matches([("s1", 1)], [("s2", 2)]), matches([], [(5, 7)]))
    assert (found[0], sorted(found[1], key=str), len(found)) == (["s1"], [5, "s2"], 3)
    assert next(iter(found.pairs())) == ("e1", "s1")
    assert list(found.priorities) == ["low", "high"]
    frame = found.to_pandas().sort_values("subscriber").to_dict("records")
    assert [(row["event_id"], row["subscription_id"], row["subscriber"], row["priority"]) for row in frame] == [
        ("e1", "s1", "a", "low"),
        ("e2", "s2", "b", "high"),
        ("e2", 5, "g", "high"),
    ]


def test_as_an_arrow_table() -> None:
    table = result(["e1", "e2"], matches([("s1", 1)], [("s2", 7), ("s3", 1)])).to_arrow()
    assert table.column_names == ["event_id", "subscription_id", "subscriber", "priority"]
    assert table.to_pydict() == {
        "event_id": ["e1", "e2", "e2"],
        "subscription_id": ["s1", "s2", "s3"],
        "subscriber": ["a", "g", "a"],
        "priority": ["low", "high", "high"],
    }


def test_data_and_tags_are_columns_on_request() -> None:
    asked: list[Any] = []

    def lookup(ids: Any) -> list[Metadata | None]:
        asked.append(list(ids))
        return [Metadata('{"n":1}', ("t",)) if id == "s1" else None for id in ids]

    found = result(["e1", "e2"], matches([("s1", 1)], [("s1", 7), ("s3", 1)]), lookup=lookup)
    table = found.to_arrow(data=True)
    assert table.column_names == ["event_id", "subscription_id", "subscriber", "priority", "data", "tags"]
    assert table["data"].to_pylist() == ['{"n":1}', '{"n":1}', None]
    assert table["tags"].to_pylist() == [["t"], ["t"], []]
    frame = found.to_pandas(data=True)
    assert (list(frame["data"]), list(frame["tags"])) == ([{"n": 1}, {"n": 1}, None], [("t",), ("t",), ()])
    assert asked == [["s1", "s3"]]


def test_bad_events_have_no_matches() -> None:
    found = result(["e1", None, "e3"], matches([(1, 1)], [(2, 1)]), positions=np.array([0, 2]))
    assert (found[0], found[1], found[2]) == ([1], [], [2])
    assert found.counts().tolist() == [1, 0, 1]


def test_nothing() -> None:
    for found in (result([]), result(["e1"]), result(["e1"], matches([]))):
        assert (len(found), list(found.pairs()), list(found.subscribers)) == (0, [], [])
        assert found.to_arrow().num_rows == 0
        assert len(found.counts()) == len(found.event_ids)


def test_portions_are_joined() -> None:
    first = result(["e1", "e2"], matches([(1, 1)], []), errors=[EventError("x", "bad", 1)])
    first.deliveries = Delivered(3, 1, 0, 0, 2, ("a", "b"))
    second = result([5, 6], matches([("s", 2)], [("t", 7)]), matches([(9, 1)], []), errors=[EventError(None, "bad", 0)])
    second.deliveries = Delivered(1, 0, 1, 1, 1, ("b", "g"))
    third = result([])
    for each in (first, second, third):
        each.names, each.naming = None, lambda lineage, codes: {code: NAMES[code] for code in codes.tolist()}
    joined = PublishResult.joined([first, second, third])
    assert joined.event_ids.tolist() == ["e1", "e2", 5, 6]
    assert joined.counts().tolist() == [1, 0, 2, 1]
    assert (joined[0], sorted(joined[2], key=str), joined[3]) == ([1], [9, "s"], ["t"])
    assert [error.position for error in joined.errors] == [1, 2]
    assert joined.deliveries == Delivered(4, 1, 1, 1, 3, ("a", "b", "g"))
    assert list(joined.priorities) == ["low", "high", "low", "high"]
    assert sorted(joined.subscribers) == ["a", "a", "b", "g"]
    with pytest.raises(OverloadedError, match="'a', 'b', 'g'"):
        joined.raise_if_rejected()
    assert PublishResult.joined([first]) is first
    assert "not delivered" in repr(joined) and "2 bad events" in repr(joined)


def test_bad_events_raise_when_they_are_asked_to() -> None:
    result(["e1"], matches([(1, 1)])).raise_if_bad()
    found = result(["e1", "e2"], errors=[EventError("tags", "a list", 1), EventError(None, "no dict", 2)])
    with pytest.raises(EventError, match="event 1: attribute 'tags'"):
        found.raise_if_bad()


def test_one_of_something_is_not_several() -> None:
    assert repr(result(["e1"], matches([(1, 1)]))) == "PublishResult(1 match of 1 event)"
    assert (
        repr(result(["e1"], errors=[EventError(None, "bad", 0)])) == "PublishResult(0 matches of 1 event, 1 bad event)"
    )


def test_it_crosses_processes() -> None:
    found = result(["e1"], matches([("s1", 1)]))
    found.naming = lambda lineage, codes: {}
    copied = pickle.loads(pickle.dumps(found))
    assert (copied[0], list(copied.subscribers), copied.naming) == (["s1"], ["a"], None)
