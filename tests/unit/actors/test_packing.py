"""What is packed comes back equal, whatever is in it."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.messages import ShardReply
from actors.packing import packed, packed_apart, unpacked, unpacked_apart
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


def bytes_of(parts: list[Any]) -> int:
    return sum(memoryview(part).nbytes for part in parts)


TABLE = pa.table(
    {
        "number": np.arange(100_000),
        "text": [None if number % 7 == 0 else f"x{number}" for number in range(100_000)],
        "kind": pa.array([f"kind {number % 3}" for number in range(100_000)]).dictionary_encode(),
        "list": [[number] * (number % 3) for number in range(100_000)],
    }
)


@pytest.mark.parametrize("start", [0, 50_001, 99_990])
@pytest.mark.parametrize("whole", [TABLE, TABLE.to_batches()[0], pa.concat_tables([TABLE, TABLE])])
def test_a_portion_of_a_table_travels_without_the_rest(whole: Any, start: int) -> None:
    portion = whole.slice(start, 1000)
    parts = packed_apart(portion)
    assert bytes_of(parts) < bytes_of(packed_apart(whole)) / 20
    found = unpacked_apart(parts)
    assert type(found) is type(portion) and found.equals(portion) and found.schema == portion.schema


def test_a_table_of_many_pieces_has_few_parts() -> None:
    scattered = pa.concat_tables([TABLE.slice(start, 1) for start in range(0, 100_000, 200)])
    parts = packed_apart(scattered)
    assert len(parts) < 10 and bytes_of(parts) < 1_000_000
    assert unpacked_apart(parts).equals(scattered)


def test_a_whole_table_travels_as_it_is() -> None:
    parts = packed_apart(TABLE)
    assert len(parts) > TABLE.num_columns
    assert unpacked_apart(parts).equals(TABLE)
    for nothing in (TABLE.slice(0, 0), TABLE.schema.empty_table(), pa.table({})):
        assert unpacked_apart(packed_apart(nothing)).equals(nothing)


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
