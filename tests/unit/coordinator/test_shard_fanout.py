"""Asking shards until all have answered, with shards that are only pretended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.coordinator.shard_fanout import ShardQuery, fan_out
from actors.transport.calls import Deadline
from actors.transport.matching import ShardReply
from ray_pubsub.errors import EventError, UnavailableError
from ray_pubsub.sharding.merging import ShardMatches

DIED = UnavailableError("shard", "its process died", died=True)
AWAY = UnavailableError("shard", "is loading")


class Shards:
    """Shard s gives for event e the match 10 * e + s; `trouble` says what it does instead."""

    def __init__(self, events: int, trouble: Callable[[int, list[int]], Exception | None]) -> None:
        self.events, self.trouble = events, trouble
        self.asked: list[tuple[int, int]] = []

    def ask(self, queries: Sequence[ShardQuery], timeout: float) -> list[ShardReply | Exception]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: ShardQuery) -> ShardReply | Exception:
        rows = list(range(self.events)) if query.rows is None else query.rows.tolist()
        self.asked.append((query.shard, len(rows)))
        trouble = self.trouble(query.shard, rows)
        if trouble is not None:
            return trouble
        ids = np.array([10 * row + query.shard for row in rows], np.int64)
        matches = ShardMatches.each(np.arange(len(rows) + 1), ids, np.zeros(len(rows), np.int32))
        return ShardReply(epoch=1, version=1, seconds=0.0, count=len(rows), matches=matches)


def found(parts: Sequence[ShardMatches], events: int) -> list[list[int]]:
    return [
        [int(match) for part in parts for match in part.match_ids[part.offsets[row] : part.offsets[row + 1]]]
        for row in range(events)
    ]


def test_all_answer() -> None:
    shards = Shards(3, lambda shard, rows: None)
    result = fan_out(shards.ask, [2, 0], 3, Deadline(60))
    assert found(result.parts, 3) == [[2, 0], [12, 10], [22, 20]]  # type: ignore[arg-type]
    assert (result.retries, result.deadly) == (0, [])


def test_only_those_that_did_not_answer_are_asked_again() -> None:
    troubles = [AWAY, DIED, AWAY, DIED]
    shards = Shards(2, lambda shard, rows: troubles.pop() if shard == 1 and troubles else None)
    result = fan_out(shards.ask, [0, 1], 2, Deadline(60), pause=0.0)
    assert found(result.parts, 2) == [[0, 1], [10, 11]]  # type: ignore[arg-type]
    assert shards.asked == [(0, 2), *[(1, 2)] * 5]
    assert result.retries == 4


def test_what_a_shard_raises_is_raised() -> None:
    shards = Shards(2, lambda shard, rows: EventError("x", "is bad"))
    with pytest.raises(EventError):
        fan_out(shards.ask, [0], 2, Deadline(60))


def test_one_that_never_answers_is_given_up_at_the_deadline() -> None:
    with pytest.raises(UnavailableError, match="is loading"):
        fan_out(Shards(2, lambda shard, rows: AWAY if shard else None).ask, [0, 1], 2, Deadline(0.05), pause=0.01)
    with pytest.raises(UnavailableError, match="died"):
        fan_out(Shards(2, lambda shard, rows: DIED if shard else None).ask, [0, 1], 2, Deadline(0.0))


@given(st.integers(1, 20), st.data())
def test_events_that_kill_are_found_and_left_out(events: int, data: st.DataObject) -> None:
    deadly = data.draw(st.sets(st.integers(0, events - 1), max_size=3))
    shards = Shards(events, lambda shard, rows: DIED if shard == 1 and deadly & set(rows) else None)
    result = fan_out(shards.ask, [0, 1], events, Deadline(60), pause=0.0)
    assert result.deadly == sorted(deadly)
    expected = [[10 * row] if row in deadly else [10 * row, 10 * row + 1] for row in range(events)]
    assert found(result.parts, events) == expected  # type: ignore[arg-type]


def test_a_kill_from_outside_is_not_held_against_an_event() -> None:
    """The shard dies three times with the whole batch, and once again with a single event."""
    deaths = iter([True, True, True, True, False, True])
    shards = Shards(2, lambda shard, rows: DIED if next(deaths, False) else None)
    result = fan_out(shards.ask, [0], 2, Deadline(60), pause=0.0)
    assert result.deadly == []
    assert found(result.parts, 2) == [[0], [10]]  # type: ignore[arg-type]
