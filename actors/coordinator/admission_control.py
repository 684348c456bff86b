"""How much a process works on at once, by number and by bytes. Beyond that callers wait for a while, and are then refused; the most urgent
are admitted first and refused last."""

from __future__ import annotations

import bisect
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ray_pubsub.errors import OverloadedError

__all__ = ["MOST_WAITING", "AdmissionControl"]

MOST_WAITING = 64
"""Callers that wait. Each holds a thread, of which those of low levels must leave some to the others."""

Waiter = tuple[int, int]
"""Minus the level, and the order of arrival: the least is admitted next."""


class AdmissionControl:
    """Admits by level, and within a level in the order of arrival. A batch that is larger than all that is allowed is admitted alone.

    Each level may take its share of the places: the highest all of them, the lowest the smallest part. So an urgent batch finds a place,
    and few others at work in front of it, however many batches of low levels arrive. The places to wait in are shared in the same way.
    """

    def __init__(self, most: int, most_bytes: int, patience: float, levels: int = 1) -> None:
        self._most, self._most_bytes, self._patience, self._levels = most, most_bytes, patience, levels
        self._change = threading.Condition()
        self._waiters: list[Waiter] = []
        self._arrivals = itertools.count()
        self.inside = self.bytes = self.refused = 0
        self._refused_by_level = [0] * levels
        self._seconds = 0.05
        """What a batch takes, as a moving average."""

    @property
    def waiting(self) -> int:
        return len(self._waiters)

    @contextmanager
    def admitted(self, size: int, patience: float | None = None, level: int | None = None) -> Iterator[None]:
        """Raises OverloadedError if there is no room within `patience` seconds, or the general patience if that is less. `level`: None if
        there are no rules, so that all batches are alike and share all places."""
        urgency = self._levels - 1 if level is None else level
        with self._change:
            waiter = (-urgency, next(self._arrivals))
            bisect.insort(self._waiters, waiter)
            try:
                wait = self._patience if patience is None else min(self._patience, patience)
                crowded = level is not None and self._waiting_at_most(urgency) > self._share(MOST_WAITING, urgency)
                if crowded or not self._change.wait_for(lambda: self._may_enter(waiter, size), wait):
                    self.refused += 1
                    self._refused_by_level[urgency] += 1
                    raise OverloadedError("batches", self.waiting, self._retry_after())
            finally:
                self._waiters.remove(waiter)
                self._change.notify_all()  # the next one may be the first now
            self.inside += 1
            self.bytes += size
        started = time.monotonic()
        try:
            yield
        finally:
            with self._change:
                self.inside -= 1
                self.bytes -= size
                self._seconds += 0.1 * (time.monotonic() - started - self._seconds)
                self._change.notify_all()

    def counts(self) -> dict[str, int | list[int]]:
        """For `stats`."""
        with self._change:
            return {
                "in_flight": self.inside,
                "in_flight_bytes": self.bytes,
                "waiting": self.waiting,
                "refused": self.refused,
                "refused_by_level": list(self._refused_by_level),
            }

    def _may_enter(self, waiter: Waiter, size: int) -> bool:
        if self._waiters[0] != waiter:
            return False
        places = self._share(self._most, -waiter[0])
        return self.inside == 0 or (self.inside < places and self.bytes + size <= self._most_bytes)

    def _share(self, whole: int, level: int) -> int:
        return max(1, whole * (level + 1) // self._levels)

    def _waiting_at_most(self, level: int) -> int:
        """Those that wait at this level or a lower one."""
        return len(self._waiters) - bisect.bisect_left(self._waiters, (-level, -1))

    def _retry_after(self) -> float:
        """About when the batches that wait now will be done."""
        return round(max(0.05, self._seconds * self.waiting / self._most), 3)
