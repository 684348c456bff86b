"""Quantiles of the latest durations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["Latencies"]

KEPT = 4096


class Latencies:
    """Collects durations. One thread at a time."""

    def __init__(self) -> None:
        self._seconds = np.zeros(KEPT)
        self._count = 0
        self.watcher: Callable[[float], None] | None = None
        """Called with each duration, if set."""

    def add(self, seconds: float) -> None:
        self._seconds[self._count % KEPT] = seconds
        self._count += 1
        if self.watcher is not None:
            self.watcher(seconds)

    def state(self) -> dict[str, Any]:
        """Returns the number of durations so far, and p50 and p99 of the latest ones in seconds."""
        kept = self._seconds[: min(self._count, KEPT)]
        if not len(kept):
            return {"count": 0, "p50": None, "p99": None}
        p50, p99 = np.quantile(kept, (0.5, 0.99)).tolist()
        return {"count": self._count, "p50": p50, "p99": p99}
