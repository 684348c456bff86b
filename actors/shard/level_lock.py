"""A lock that is granted to the most urgent waiter."""

from __future__ import annotations

import bisect
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import NamedTuple

from ray_pubsub.preemption import preemptible

__all__ = ["LevelLock"]

LONGEST = 1.0
"""Seconds after its arrival from which a batch goes first, whatever its level, and gives way no more: urgent batches without a pause do not
keep it until its publisher gives up."""


class Waiter(NamedTuple):
    """The smallest waiter is next."""

    urgency: int
    """The level, negated."""
    arrival: int
    since: float
    """On the clock of `time.monotonic`."""


class LevelLock:
    """A lock granted by level, and within a level in the order of arrival. A holder that is less urgent than others before it lets them go
    first between two parts of its work (ray_pubsub/preemption.py): an urgent batch waits for about a millisecond, not for a whole batch."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._waiters: list[Waiter] = []
        self._arrivals = itertools.count()
        self._holder: Waiter | None = None
        self._highest = 0
        """The highest level that ever asked for the lock. As long as all batches have one level, none is matched in parts."""

    @contextmanager
    def held(self, level: int) -> Iterator[None]:
        own = Waiter(-level, next(self._arrivals), time.monotonic())
        self._acquire(own)
        try:
            with preemptible(partial(self._give_way, own)) if level < self._highest else nullcontext():
                yield
        finally:
            self._release()

    def _acquire(self, own: Waiter) -> None:
        with self._change:
            self._highest = max(self._highest, -own.urgency)
            if self._holder is None:
                self._holder = own
                return
            bisect.insort(self._waiters, own)
            self._change.wait_for(lambda: self._holder is own)

    def _release(self) -> None:
        """Hands the lock over. The next holder is chosen here: if each waiter looked at the clock for itself, they might disagree."""
        with self._change:
            self._holder = None
            if self._waiters:
                oldest = min(self._waiters, key=lambda waiter: waiter.since)
                late = time.monotonic() - oldest.since > LONGEST
                self._holder = oldest if late else self._waiters[0]
                self._waiters.remove(self._holder)
                self._change.notify_all()

    def _give_way(self, own: Waiter) -> None:
        """Called by the holder. If a more urgent one waits, returns when all that are more urgent are done."""
        first = self._waiters[:1]
        if first and first[0].urgency < own.urgency and time.monotonic() - own.since <= LONGEST:
            self._release()
            self._acquire(own)
