"""A lock that is granted to the most urgent waiter."""

from __future__ import annotations

import bisect
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["LevelLock"]


class LevelLock:
    """A lock granted by level, and within a level in the order of arrival. Its holder is not interrupted: an urgent batch waits for one
    batch at most, however many others wait."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._waiters: list[tuple[int, int]] = []
        self._arrivals = itertools.count()
        self._held = False

    @contextmanager
    def held(self, level: int) -> Iterator[None]:
        with self._change:
            waiter = (-level, next(self._arrivals))
            bisect.insort(self._waiters, waiter)
            self._change.wait_for(lambda: not self._held and self._waiters[0] == waiter)
            del self._waiters[0]
            self._held = True
        try:
            yield
        finally:
            with self._change:
                self._held = False
                self._change.notify_all()
