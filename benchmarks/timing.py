"""Repeated measurement of one thing, with its noise."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Timing", "measure"]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of each run."""

    seconds: list[float]

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def noise(self) -> float:
        """How far the slowest run was from the fastest, as a part of the fastest."""
        return max(self.seconds) / self.best - 1

    def rate(self, items: int) -> str:
        return f"{items / self.median:,.0f}/s (best {items / self.best:,.0f}, noise {self.noise:.0%})"


def measure(work: Callable[[], object], repeats: int = 5, clock: Callable[[], float] = time.perf_counter) -> Timing:
    """Runs once to warm up, then `repeats` times. With time.thread_time as the clock, other work on the machine counts less."""
    work()
    seconds = []
    for _ in range(repeats):
        start = clock()
        work()
        seconds.append(clock() - start)
    return Timing(seconds)
