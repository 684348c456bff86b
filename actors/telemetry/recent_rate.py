"""The rate per second over the last seconds."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["RecentRate"]

WINDOW = 10
"""The length of the window in seconds."""
KEPT = WINDOW + 1


class RecentRate:
    """A count for each of the last seconds. One thread at a time. `clock` must be monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._counts = [0] * KEPT
        self._second = 0

    def add(self, count: int) -> None:
        if int(self._clock() - self._began) != self._second:
            self._advance()
        self._counts[self._second % KEPT] += count

    def per_second(self) -> float:
        """Returns the rate over the window, or since the start if that is shorter. The current second counts as far as it has passed."""
        age = self._advance()
        span = min(age, WINDOW + age - self._second)
        return sum(self._counts) / span if span > 0 else 0.0

    def _advance(self) -> float:
        """Drops counts that are too old. Returns the seconds since the start."""
        age = self._clock() - self._began
        second = int(age)
        for passed in range(max(self._second, second - len(self._counts)) + 1, second + 1):
            self._counts[passed % len(self._counts)] = 0
        self._second = second
        return age
