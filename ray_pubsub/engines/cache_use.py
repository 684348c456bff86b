"""How often an engine could begin at one of its cached bit sets (GEM section II.G) instead of working from the boundaries alone."""

from __future__ import annotations

import threading

__all__ = ["CacheUse"]


class CacheUse:
    """Counted per call of a kernel, not per step: what a lock costs is not felt there."""

    __slots__ = ("_lock", "hits", "steps")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.steps = 0
        """Steps that a cached bit set could have shortened."""
        self.hits = 0
        """Those that began at one."""

    def add(self, steps: int, hits: int) -> None:
        with self._lock:
            self.steps += steps
            self.hits += hits
