"""Limits how often frequent events are logged; each log line has their number since the last one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

__all__ = ["RateLimitedLog"]


class RateLimitedLog:
    """Counts events between log lines. Safe to use from several threads. `clock` must be monotonic."""

    def __init__(self, seconds: float = 5.0, clock: Callable[[], float] = time.monotonic) -> None:
        """`seconds` is the least time between two log lines."""
        self._seconds, self._clock = seconds, clock
        self._lock = threading.Lock()
        self._next = clock()
        self._count = 0

    def due(self) -> int:
        """Counts one more event. Returns 0 if it should not be logged, otherwise the number of events since the last log line."""
        with self._lock:
            self._count += 1
            now = self._clock()
            if now < self._next:
                return 0
            self._next = now + self._seconds
            count, self._count = self._count, 0
            return count
