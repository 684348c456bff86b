"""Sends one batch to several shards until all have replied. A shard that restarts is asked again; an event that crashes its shard is
found and left out. This module only decides; `ask` does the calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from actors.transport.calls import LONGEST_PAUSE, PAUSE, Deadline
from actors.transport.matching import ShardReply
from actors.transport.object_refs import StoredRef
from ray_pubsub.errors import UnavailableError
from ray_pubsub.sharding.merging import ShardMatches, merge_matches

__all__ = ["FanOut", "ShardQuery", "fan_out"]

CRASHES_UNTIL_BISECTED = 3
"""The number of crashes of a shard during one batch after which the batch is suspected. One kill from outside is seen as up to two."""
CRASHES_UNTIL_LEFT_OUT = 2
"""The number of crashes of a shard on a single event after which the event is left out."""


@dataclass(frozen=True, slots=True, eq=False)
class ShardQuery:
    """A request to a shard: match the whole batch, or these rows of it. Matches of selected rows are always in the reply itself."""

    shard: int
    rows: NDArray[np.int64] | None = None


Ask = Callable[[Sequence[ShardQuery], float], Sequence[ShardReply | Exception]]
"""Asks all these shards at once, and waits at most this number of seconds."""


@dataclass(slots=True, eq=False)
class FanOut:
    """The outcome of a batch."""

    parts: list[ShardMatches | StoredRef] = field(default_factory=list)
    deadly: list[int] = field(default_factory=list)
    """The rows of events that crash a shard. They have no matches."""
    retries: int = 0


def fan_out(ask: Ask, shards: Sequence[int], events: int, deadline: Deadline, pause: float = PAUSE) -> FanOut:
    """Returns the matches of all shards, in the order of the shards. Raises UnavailableError if a shard does not reply in time; other
    errors of a shard are raised as they are."""
    found: dict[int, ShardMatches | StoredRef] = {}
    result = FanOut()
    crashes = dict.fromkeys(shards, 0)
    left = list(shards)
    while left:
        replies = ask([ShardQuery(shard) for shard in left], deadline.left)
        again: list[int] = []
        for shard, reply in zip(left, replies, strict=True):
            if isinstance(reply, ShardReply):
                assert reply.matches is not None
                found[shard] = reply.matches
                continue
            last = _unavailable(reply)
            crashes[shard] += last.died
            if not deadline:
                raise last
            if crashes[shard] >= CRASHES_UNTIL_BISECTED:
                found[shard] = _bisect(ask, shard, events, deadline, result)
            else:
                again.append(shard)
        left = again
        if left:
            result.retries += 1
            time.sleep(min(pause, deadline.left))
            pause = min(2 * pause, LONGEST_PAUSE)
    result.parts = [found[shard] for shard in shards]
    result.deadly = sorted(set(result.deadly))
    return result


def _bisect(ask: Ask, shard: int, events: int, deadline: Deadline, result: FanOut) -> ShardMatches:
    """Matches a suspected batch half by half. A half that crashes the shard is halved again, and a single event that crashes it twice is
    left out."""
    answered: list[ShardMatches] = []
    waiting = [np.arange(events)]
    crashes = 0
    while waiting:
        rows = waiting[-1]
        (reply,) = ask([ShardQuery(shard, rows)], deadline.left)
        result.retries += 1
        if isinstance(reply, ShardReply):
            assert isinstance(reply.matches, ShardMatches)
            answered.append(_scattered(reply.matches, rows, events))
            waiting.pop()
            crashes = 0
            continue
        last = _unavailable(reply)
        if not deadline:
            raise last
        crashes += last.died
        if not last.died:
            time.sleep(min(PAUSE, deadline.left))
        elif len(rows) > 1:
            waiting[-1:] = [rows[len(rows) // 2 :], rows[: len(rows) // 2]]
            crashes = 0
        elif crashes >= CRASHES_UNTIL_LEFT_OUT:
            result.deadly += rows.tolist()
            waiting.pop()
            crashes = 0
    return merge_matches(answered, events)


def _unavailable(reply: ShardReply | Exception) -> UnavailableError:
    if isinstance(reply, UnavailableError):
        return reply
    assert isinstance(reply, Exception)
    raise reply


def _scattered(part: ShardMatches, rows: NDArray[np.int64], events: int) -> ShardMatches:
    """Converts the matches of selected rows to matches of the whole batch, whose other rows have none."""
    counts = np.zeros(events, np.int64)
    counts[rows] = np.diff(part.offsets)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return ShardMatches(offsets, part.places, part.ids, part.subscribers, part.numbers)
