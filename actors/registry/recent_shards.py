"""Remembers the shards of subscriptions that were removed a moment ago, so that an id that is added again goes to the same shard.

A publication asks several shards, and one may answer from before a change, another from after it. If a subscription were removed from one
shard and added to another meanwhile, the publication would have it twice. So an id keeps its shard for as long as a publication may last.

A server may remove millions in that time. So an id takes no object but 23 to 46 bytes in a table of ints, and has no time of its own: a
table is filled for a while and later forgotten as a whole. A string is known by its hash. If those of two were equal, one in 2^64, a new
subscription would go where the other was: wrong only if it had itself been removed in this time, from another shard.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.index.slot_map import SlotMap

__all__ = ["RecentShards"]

SPANS = 3
"""A removal is known for up to `1 + 1 / SPANS` times as long as it must be; a look-up asks about as many tables."""


class Span(NamedTuple):
    """The removals from a moment on, for a part of the time."""

    began: float
    shards: SlotMap


class RecentShards:
    """One thread at a time.

    >>> recent = RecentShards(60.0)
    >>> recent.leave({"s1": 3, 17: 1})
    >>> recent.find(["s1", "s2", 17])
    {'s1': 3, 17: 1}
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._span, self._clock = seconds, seconds / SPANS, clock
        self._spans: deque[Span] = deque()

    def leave(self, shards: Mapping[Any, int]) -> None:
        """Records that subscriptions, given by id, were on these shards until now."""
        self.forget()
        if not shards:
            return
        now = self._clock()
        if not self._spans or self._spans[-1].began + self._span <= now:
            self._spans.append(Span(now, SlotMap()))
        keys, values = np.array(_keys(shards), np.int64), np.fromiter(shards.values(), np.int64, count=len(shards))
        self._spans[-1].shards.put_pairs(keys, values)

    def find(self, ids: Sequence[Any]) -> dict[Any, int]:
        """Returns the shards of those of these subscriptions that were removed a short time ago, by id."""
        self.forget()
        if not self._spans or not ids:
            return {}
        keys = _keys(ids)
        found: dict[Any, int] = {}
        for span in self._spans:  # the newest has the last word
            shards = map(span.shards.get, keys)
            found.update((identity, shard) for identity, shard in zip(ids, shards, strict=True) if shard >= 0)
        return found

    def forget(self) -> None:
        """Drops the removals that are too old to matter."""
        oldest = self._clock() - self._seconds
        while self._spans and self._spans[0].began + self._span < oldest:
            self._spans.popleft()


def _keys(ids: Iterable[Any]) -> list[int]:
    return [identity if type(identity) is int else hash(identity) for identity in ids]
