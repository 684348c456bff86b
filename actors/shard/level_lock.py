"""A lock that is granted to the most urgent waiter."""

from __future__ import annotations

import bisect
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

from ray_pubsub.preemption import preemptible

__all__ = ["LevelLock"]

Waiter = tuple[int, int]
"""The negated level and the order of arrival: the smallest waiter is next."""


class LevelLock:
    """A lock granted by level, and within a level in the order of arrival. A holder that is less urgent than others before it lets them go
    first between two parts of its work (ray_pubsub/preemption.py): an urgent batch waits for about a millisecond, not for a whole batch."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._waiters: list[Waiter] = []
        self._arrivals = itertools.count()
        self._held = False
        self._highest = 0
        """The highest level that ever asked for the lock. As long as all batches have one level, none is matched in parts."""

    @contextmanager
    def held(self, level: int) -> Iterator[None]:
        own = (-level, next(self._arrivals))
        self._acquire(own)
        try:
            with preemptible(partial(self._give_way, own)) if level < self._highest else nullcontext():
                yield
        finally:
            self._release()

    def _acquire(self, own: Waiter) -> None:
        with self._change:
            self._highest = max(self._highest, -own[0])
            bisect.insort(self._waiters, own)
            self._change.wait_for(lambda: not self._held and self._waiters[0] == own)
            del self._waiters[0]
            self._held = True

    def _release(self) -> None:
        with self._change:
            self._held = False
            self._change.notify_all()

    def _give_way(self, own: Waiter) -> None:
        """Called by the holder. If a more urgent one waits, returns when all that are more urgent are done."""
        first = self._waiters[:1]
        if first and first[0][0] < own[0]:
            self._release()
            self._acquire(own)
