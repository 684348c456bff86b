"""What is packed comes back equal, whatever is in it."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.messages import ShardReply
from actors.packing import packed, unpacked
from actors.publish_result import Delivered, PublishResult
from ray_pubsub.errors import EventError, FencedError
from ray_pubsub.sharding.merging import ShardMatches

ARRAYS = [
    np.arange(5),
    np.arange(10, dtype=np.int32)[::3],
    np.empty(0, np.int64),
    np.array([True, False]),
    np.array(["a", "bc"]),
    np.array(["a", 1, None], object),
    np.array(["2026-01-01T00:00:00.5"], "datetime64[ns]"),
    np.arange(6).reshape(2, 3),
    np.array(7.5),
    np.arange(3, dtype=">i4"),
    np.array([(1, 2.0)], [("x", "i8"), ("y", "f8")]),
]


@pytest.mark.parametrize("array", ARRAYS, ids=[str(array.dtype) + str(array.shape) for array in ARRAYS])
def test_arrays(array: Any) -> None:
    found = unpacked(packed(array))
    assert found.dtype == array.dtype and found.shape == array.shape
    assert found.tolist() == array.tolist()


def test_events_and_errors() -> None:
    events = [{"x": 1, "y": None, "z": {"t": datetime.datetime(2026, 1, 1), "s": "ü"}}, {"x": np.float64(0.5)}]
    assert unpacked(packed((events, "lineage", 7, 0.5, True))) == (events, "lineage", 7, 0.5, True)
    for error in (EventError("x", "is bad", 3), FencedError("shard 0", 1, 2)):
        found = unpacked(packed(error))
        assert type(found) is type(error) and str(found) == str(error) and found.__dict__ == error.__dict__


@pytest.mark.parametrize("ids", [np.array([7, 8, 9]), pa.array(["a", "b", "ü"]), np.array(["a", 1, "b"], object)])
def test_replies_and_results(ids: Any) -> None:
    matches = ShardMatches.each(np.array([0, 1, 3]), ids, np.array([4, 5, 4], np.int32))
    reply = unpacked(packed(ShardReply(3, 11, 0.25, 3, matches)))
    assert (reply.epoch, reply.version, reply.seconds, reply.count) == (3, 11, 0.25, 3)
    assert reply.matches.match_ids.tolist() == ids.tolist()
    assert reply.matches.numbers is None
    given = PublishResult(
        np.array([100, 101]),
        np.array([0, 1], np.uint8),
        ("low", "high"),
        [matches],
        errors=[EventError("x", "is bad", 2)],
        deliveries=Delivered(delivered=3),
        names={4: "desk", 5: "floor"},
        naming=lambda: None,
        lineage="lineage",
    )
    for result in (unpacked(packed(given)), unpacked(packed(unpacked(packed(given))))):
        assert list(result.pairs()) == list(given.pairs())
        assert result.subscribers.tolist() == ["desk", "floor", "desk"]
        assert result.priorities.tolist() == ["low", "high"]
        assert (result.deliveries, result.lineage, result.naming) == (given.deliveries, "lineage", None)
        assert str(result.errors) == str(given.errors)
        assert result.to_arrow() == given.to_arrow() if ids.tolist() != ["a", 1, "b"] else len(result) == 3
