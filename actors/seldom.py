"""Something that may happen very often and is told seldom, with how often it happened meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

__all__ = ["Seldom"]


class Seldom:
    """Safe to use from several threads. `clock` is monotonic."""

    def __init__(self, seconds: float = 5.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._lock = threading.Lock()
        self._next = clock()
        self._count = 0

    def due(self) -> int:
        """It has happened once more: 0 if that need not be told, or how often it happened since it was told last."""
        with self._lock:
            self._count += 1
            now = self._clock()
            if now < self._next:
                return 0
            self._next = now + self._seconds
            count, self._count = self._count, 0
            return count
