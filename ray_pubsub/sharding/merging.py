"""The answers of several shards to one batch, as one answer.

Every shard answers for all events of the batch. An event's matches stand in the order of the shards as they are given, and within a
shard in the shard's own order. The answer of a single shard is passed on as it is, without a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.errors import SettingError
from ray_pubsub.kernels.merged_matches import drop_repeated, place_matches

__all__ = ["ShardMatches", "merge_matches"]

NO_VERSIONS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class ShardMatches:
    """Event i matches the subscriptions offsets[i]:offsets[i + 1]: per match a number, a subscriber's code and, if wanted, a version."""

    offsets: NDArray[np.int64]
    numbers: NDArray[np.int64]
    subscribers: NDArray[np.int32]
    versions: NDArray[np.int64] | None = None

    @property
    def events(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def none(cls, events: int) -> ShardMatches:
        """No event has a match: what no shard need be asked for."""
        return cls(np.zeros(events + 1, np.int64), np.empty(0, np.int64), np.empty(0, np.int32))


def merge_matches(shards: Sequence[ShardMatches], events: int, *, repeated: bool = False) -> ShardMatches:
    """All matches of all shards. `repeated`: while subscriptions move, one may come from two shards; of those the first counts."""
    for part in shards:
        if part.events != events:
            raise SettingError("merge", f"a shard answered for {part.events} events, not for the batch's {events}")
    if not shards:
        return ShardMatches.none(events)
    if len(shards) == 1:
        return shards[0]
    counts = sum((np.diff(part.offsets) for part in shards), np.zeros(events, np.int64))
    offsets = np.zeros(events + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    cursor = offsets[:-1].copy()
    total = int(offsets[-1])
    with_versions = all(part.versions is not None for part in shards)
    numbers, subscribers = np.empty(total, np.int64), np.empty(total, np.int32)
    versions = np.empty(total, np.int64) if with_versions else NO_VERSIONS
    for part in shards:
        own = part.versions if with_versions else NO_VERSIONS
        place_matches(part.offsets, part.numbers, part.subscribers, own, cursor, numbers, subscribers, versions)
    if repeated and total:
        size = 1 << int(2 * counts.max() - 1).bit_length()
        keys, stamps = np.empty(size, np.int64), np.full(size, -1, np.int64)
        left = drop_repeated(offsets, numbers, subscribers, versions, keys, stamps)
        numbers, subscribers, versions = numbers[:left], subscribers[:left], versions[:left]
    return ShardMatches(offsets, numbers, subscribers, versions if with_versions else None)
