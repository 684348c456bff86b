"""Counts how often an engine could start from a cached bit set (GEM section II.G) instead of from the boundaries alone."""

from __future__ import annotations

import threading

from ray_pubsub.engines.segment_stats import CacheStats

__all__ = ["CacheUse"]


class CacheUse:
    """Counts are added once per call of a kernel, not per step, so the lock's cost does not matter."""

    __slots__ = ("_lock", "_stats")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stats = CacheStats(0, 0)

    def add(self, steps: int, hits: int) -> None:
        """`steps`: those that a cached bit set could have shortened; `hits`: those that started from one."""
        with self._lock:
            self._stats = CacheStats(self._stats.steps + steps, self._stats.hits + hits)

    def stats(self) -> CacheStats:
        return self._stats
