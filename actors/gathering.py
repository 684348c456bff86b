"""Asking shards for the matches of a batch until all have answered: a shard that restarts is asked again, and an event that kills its
shard is found and left out. Decisions only; `ask` does the asking."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from actors.calls import LONGEST_PAUSE, PAUSE, Deadline
from actors.messages import ShardReply
from actors.stored_batch import Stored
from ray_pubsub.errors import UnavailableError
from ray_pubsub.sharding.merging import ShardMatches, merge_matches

__all__ = ["Gathered", "Question", "gather"]

DEATHS_UNTIL_DOUBT = 3
"""Deaths of a shard during one batch after which the batch is suspected. One kill from outside is seen as up to two."""
DEATHS_UNTIL_SURE = 2


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """To a shard: the whole batch, or these rows of it. The matches of some rows are always in the reply itself."""

    shard: int
    rows: NDArray[np.int64] | None = None


Ask = Callable[[Sequence[Question], float], Sequence[ShardReply | Exception]]
"""Asks all of them at once; waits for so many seconds at most."""


@dataclass(slots=True, eq=False)
class Gathered:
    parts: list[ShardMatches | Stored] = field(default_factory=list)
    deadly: list[int] = field(default_factory=list)
    """Rows of events that killed a shard whenever it was asked. They have no matches."""
    retries: int = 0


def gather(ask: Ask, shards: Sequence[int], events: int, deadline: Deadline, pause: float = PAUSE) -> Gathered:
    """The matches of all shards, in the order of the shards. Raises UnavailableError if one does not answer in time, and what a shard
    raises otherwise."""
    found: dict[int, ShardMatches | Stored] = {}
    gathered = Gathered()
    deaths = dict.fromkeys(shards, 0)
    left = list(shards)
    while left:
        replies = ask([Question(shard) for shard in left], deadline.left)
        again: list[int] = []
        for shard, reply in zip(left, replies, strict=True):
            if isinstance(reply, ShardReply):
                assert reply.matches is not None
                found[shard] = reply.matches
                continue
            last = _unavailable(reply)
            deaths[shard] += last.died
            if not deadline:
                raise last
            if deaths[shard] >= DEATHS_UNTIL_DOUBT:
                found[shard] = _bisect(ask, shard, events, deadline, gathered)
            else:
                again.append(shard)
        left = again
        if left:
            gathered.retries += 1
            time.sleep(min(pause, deadline.left))
            pause = min(2 * pause, LONGEST_PAUSE)
    gathered.parts = [found[shard] for shard in shards]
    gathered.deadly = sorted(set(gathered.deadly))
    return gathered


def _bisect(ask: Ask, shard: int, events: int, deadline: Deadline, gathered: Gathered) -> ShardMatches:
    """Half by half. A half that kills the shard is halved again, a single event that does so twice is left out."""
    answered: list[ShardMatches] = []
    waiting = [np.arange(events)]
    deaths = 0
    while waiting:
        rows = waiting[-1]
        (reply,) = ask([Question(shard, rows)], deadline.left)
        gathered.retries += 1
        if isinstance(reply, ShardReply):
            assert isinstance(reply.matches, ShardMatches)
            answered.append(_scattered(reply.matches, rows, events))
            waiting.pop()
            deaths = 0
            continue
        last = _unavailable(reply)
        if not deadline:
            raise last
        deaths += last.died
        if not last.died:
            time.sleep(min(PAUSE, deadline.left))
        elif len(rows) > 1:
            waiting[-1:] = [rows[len(rows) // 2 :], rows[: len(rows) // 2]]
            deaths = 0
        elif deaths >= DEATHS_UNTIL_SURE:
            gathered.deadly += rows.tolist()
            waiting.pop()
            deaths = 0
    return merge_matches(answered, events)


def _unavailable(reply: ShardReply | Exception) -> UnavailableError:
    if isinstance(reply, UnavailableError):
        return reply
    assert isinstance(reply, Exception)
    raise reply


def _scattered(part: ShardMatches, rows: NDArray[np.int64], events: int) -> ShardMatches:
    """The matches of some rows as those of all, of which the others have none."""
    counts = np.zeros(events, np.int64)
    counts[rows] = np.diff(part.offsets)
    return replace(part, offsets=np.concatenate([[0], np.cumsum(counts)]))
