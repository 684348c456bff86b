"""Limits how much a process works on at once, by number of batches and by bytes. Beyond the limits callers wait for a while and are then
refused; the most urgent are admitted first and refused last."""

from __future__ import annotations

import bisect
import itertools
import math
import threading
import time
from types import TracebackType

from ray_pubsub.errors import OverloadedError

__all__ = ["MOST_WAITING", "AdmissionControl"]

MOST_WAITING = 64
"""The most callers that may wait. Each holds a thread, and the lower levels must leave some threads to the higher ones."""

URGENT_FOR, KEPT = 0.25, 4
"""For this many seconds after a batch was admitted or done, lower levels have one place in KEPT of theirs: what is at work already is not
interrupted, and the next urgent batch would wait for it."""

Waiter = tuple[int, int]
"""The negated level and the order of arrival: the smallest waiter is admitted next."""


class AdmissionControl:
    """Admits batches by level, and within a level in the order of arrival. A batch that is larger than the byte limit is admitted alone.

    Each level may use a share of the places: the highest level all of them, the lowest the smallest share. So an urgent batch finds a
    place, with few others at work ahead of it, however many batches of low levels arrive. The places to wait in are shared in the same way.
    While urgent batches come, lower levels have a part of their places only, at least one.
    """

    def __init__(self, most: int, most_bytes: int, patience: float, levels: int = 1) -> None:
        self._most, self._most_bytes, self._patience, self._levels = most, most_bytes, patience, levels
        self._lock = threading.RLock()
        self._change = threading.Condition(self._lock)
        self._waiters: list[Waiter] = []
        self._arrivals = itertools.count()
        self.inside = self.bytes = self.refused = 0
        self._refused_by_level = [0] * levels
        self._seen = [-math.inf] * levels
        """When a batch of each level was admitted or done last."""
        self._seconds = 0.05
        """The seconds that a batch takes, as a moving average."""

    @property
    def waiting(self) -> int:
        return len(self._waiters)

    def admitted(self, size: int, patience: float | None = None, level: int | None = None) -> Place:
        """Holds a place for a batch of `size` bytes while the block runs. Raises OverloadedError if there is no room within `patience`
        seconds, or within the general patience if that is shorter. `level` is None if there are no rules: all batches are then alike
        and share all places."""
        return Place(self, size, patience, level)

    def enter(self, size: int, patience: float | None, level: int | None) -> tuple[int, float]:
        """Takes a place. Returns what `leave` needs."""
        urgency = self._levels - 1 if level is None else level
        with self._lock:
            if self._waiters or not self._has_room(urgency, size):
                self._wait(urgency, size, patience, level is not None)
            self.inside += 1
            self.bytes += size
            started = self._seen[urgency] = time.monotonic()
        return urgency, started

    def leave(self, size: int, urgency: int, started: float) -> None:
        with self._lock:
            self.inside -= 1
            self.bytes -= size
            now = self._seen[urgency] = time.monotonic()
            self._seconds += 0.1 * (now - started - self._seconds)
            if self._waiters:
                self._change.notify_all()

    def _wait(self, urgency: int, size: int, patience: float | None, by_level: bool) -> None:
        """Waits for a place. Called with the lock."""
        waiter = (-urgency, next(self._arrivals))
        bisect.insort(self._waiters, waiter)
        try:
            wait = self._patience if patience is None else min(self._patience, patience)
            crowded = by_level and self._waiting_at_most(urgency) > self._share(MOST_WAITING, urgency)
            if crowded or not self._change.wait_for(lambda: self._may_enter(waiter, size), wait):
                self.refused += 1
                self._refused_by_level[urgency] += 1
                raise OverloadedError("batches", self.waiting, self._retry_after())
        finally:
            self._waiters.remove(waiter)
            self._change.notify_all()  # another waiter may be the first now

    def counts(self) -> dict[str, int]:
        """Returns the counts for `stats`."""
        with self._change:
            return {
                "in_flight": self.inside,
                "in_flight_bytes": self.bytes,
                "waiting": self.waiting,
                "refused": self.refused,
            }

    def refused_by_level(self) -> list[int]:
        """Returns how many batches of each level were refused. Without rules all batches count as the highest level."""
        with self._change:
            return list(self._refused_by_level)

    def _may_enter(self, waiter: Waiter, size: int) -> bool:
        return self._waiters[0] == waiter and self._has_room(-waiter[0], size)

    def _has_room(self, level: int, size: int) -> bool:
        if not self.inside:
            return True
        places = self._share(self._most, level)
        if max(self._seen[level + 1 :], default=-math.inf) > time.monotonic() - URGENT_FOR:
            places = max(1, places // KEPT)
        return self.inside < places and self.bytes + size <= self._most_bytes

    def _share(self, whole: int, level: int) -> int:
        return max(1, whole * (level + 1) // self._levels)

    def _waiting_at_most(self, level: int) -> int:
        """Returns the number of callers that wait at this level or a lower one."""
        return len(self._waiters) - bisect.bisect_left(self._waiters, (-level, -1))

    def _retry_after(self) -> float:
        """Estimates the seconds until the batches that wait now are done."""
        return round(max(0.05, self._seconds * self.waiting / self._most), 3)


class Place:
    """A place in use, while a block runs. A generator as context manager would be five more calls for each batch."""

    __slots__ = ("_admission", "_held", "_level", "_patience", "_size")

    def __init__(self, admission: AdmissionControl, size: int, patience: float | None, level: int | None) -> None:
        self._admission, self._size, self._patience, self._level = admission, size, patience, level

    def __enter__(self) -> None:
        self._held = self._admission.enter(self._size, self._patience, self._level)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admission.leave(self._size, *self._held)
