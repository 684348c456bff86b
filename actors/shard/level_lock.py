"""A lock that is granted to the most urgent waiter."""

from __future__ import annotations

import bisect
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

from ray_pubsub.preemption import preemptible

__all__ = ["LevelLock"]

LONGEST = 1.0
"""Seconds after its arrival from which a batch is late: it takes turns with more urgent ones. Urgent batches without a pause do not keep it
until its publisher gives up, and late ones, of which there may be many, do not keep an urgent one waiting until all of them are done."""
LONGEST_TURN = 0.1
"""The most seconds for which a late batch works before it gives way again."""


class Waiter(NamedTuple):
    """The smallest waiter is next."""

    urgency: int
    """The level, negated."""
    arrival: int
    since: float
    """On the lock's clock."""


class LevelLock:
    """A lock granted by level, and within a level in the order of arrival. A holder that is less urgent than others before it lets them go
    first between two parts of its work (ray_pubsub/preemption.py): an urgent batch waits for about a millisecond, not for a whole batch."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._change = threading.Condition()
        self._waiters: list[Waiter] = []
        self._arrivals = itertools.count()
        self._holder: Waiter | None = None
        self._turn = False
        """Whether the holder is a late one that goes before more urgent ones. After it they go first."""
        self._highest = 0
        """The highest level that ever asked for the lock. As long as all batches have one level, none is matched in parts."""

    @contextmanager
    def held(self, level: int) -> Iterator[None]:
        own = Waiter(-level, next(self._arrivals), self._clock())
        self._acquire(own)
        try:
            with preemptible(_GivingWay(self, own)) if level < self._highest else nullcontext():
                yield
        finally:
            self._release(own)

    def _acquire(self, own: Waiter) -> None:
        with self._change:
            self._highest = max(self._highest, -own.urgency)
            if self._holder is None:
                self._holder, self._turn = own, False
                return
            bisect.insort(self._waiters, own)
            self._change.wait_for(lambda: self._holder is own)

    def _release(self, own: Waiter, *, done: bool = True) -> None:
        """Hands the lock over: to the most urgent waiter, or when a more urgent one is done to the oldest that is late. The next holder is
        chosen here: if each waiter looked at the clock for itself, they might disagree."""
        with self._change:
            self._holder = None
            if self._waiters:
                oldest = min(self._waiters, key=lambda waiter: waiter.since)
                self._turn = done and not self._turn and own.urgency < oldest.urgency and self._is_late(oldest)
                self._holder = oldest if self._turn else self._waiters[0]
                self._waiters.remove(self._holder)
                self._change.notify_all()

    def _is_late(self, waiter: Waiter) -> bool:
        return self._clock() - waiter.since > LONGEST


class _GivingWay:
    """What the holder of a lock calls between two parts of its work. If a more urgent batch waits, this returns when all that are more
    urgent are done. A late batch has its next turn sooner, and then works for as long as it has waited before it gives way again."""

    __slots__ = ("_lock", "_not_before", "_own")

    def __init__(self, lock: LevelLock, own: Waiter) -> None:
        self._lock, self._own, self._not_before = lock, own, -math.inf

    def __call__(self) -> None:
        lock, own = self._lock, self._own
        first = lock._waiters[:1]
        if not first or first[0].urgency >= own.urgency:
            return
        left = lock._clock()
        if left < self._not_before:
            return
        lock._release(own, done=False)
        lock._acquire(own)
        if lock._is_late(own):
            back = lock._clock()
            self._not_before = back + min(back - left, LONGEST_TURN)
