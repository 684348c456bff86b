"""Remembers the shards of subscriptions that were removed a moment ago, so that an id that is added again goes to the same shard.

A publication asks several shards, and one may answer from before a change, another from after it. If a subscription were removed from one
shard and added to another meanwhile, the publication would have it twice. So an id keeps its shard for as long as a publication may last.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

__all__ = ["RecentShards"]


class RecentShards:
    """One thread at a time.

    >>> recent = RecentShards(60.0)
    >>> recent.leave("s1", 3)
    >>> recent.find("s1"), recent.find("s2")
    (3, None)
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._left: OrderedDict[str | int, tuple[int, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._left)

    def leave(self, id: str | int, shard: int) -> None:
        """Records that a subscription was on this shard until now."""
        now = self._clock()
        self._left[id] = shard, now
        self._left.move_to_end(id)
        self.forget()

    def find(self, id: str | int) -> int | None:
        """Returns the shard of a subscription that was removed a short time ago, otherwise None."""
        found = self._left.get(id)
        return None if found is None or found[1] < self._clock() - self._seconds else found[0]

    def forget(self) -> None:
        """Drops the removals that are too old to matter."""
        oldest = self._clock() - self._seconds
        while self._left and next(iter(self._left.values()))[1] < oldest:
            self._left.popitem(last=False)
        if not self._left:
            self._left = OrderedDict()  # an emptied dict keeps its memory
