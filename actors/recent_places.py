"""Where subscriptions were that have just gone: one that comes back goes there again.

A publication asks several shards, and one may answer from before a change, another from after it. Were a subscription removed from the
one and added to the other meanwhile, the publication would have it twice. So, for as long as a publication may last, an id keeps its shard.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

__all__ = ["RecentPlaces"]


class RecentPlaces:
    """One thread at a time.

    >>> places = RecentPlaces(60.0)
    >>> places.leave("s1", 3)
    >>> places.find("s1"), places.find("s2")
    (3, None)
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._left: OrderedDict[str | int, tuple[int, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._left)

    def leave(self, id: str | int, shard: int) -> None:
        """It was on this shard until now."""
        now = self._clock()
        self._left[id] = shard, now
        self._left.move_to_end(id)
        while self._left and next(iter(self._left.values()))[1] < now - self._seconds:
            self._left.popitem(last=False)

    def find(self, id: str | int) -> int | None:
        """The shard it was on, if that was a short time ago."""
        found = self._left.get(id)
        return None if found is None or found[1] < self._clock() - self._seconds else found[0]
