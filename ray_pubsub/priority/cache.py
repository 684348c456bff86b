"""Caches the answers for signatures (paper §4.4.3), bounded and exact.

An entry is valid only in its epoch, and every change of the rules begins a new epoch, so no stale answer is given. One batch uses the
cache at a time; other batches at the same moment work without it, and so do all batches while hits are too rare to pay.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["CacheLines", "SignatureCache"]

WINDOW = 16_384
RESTS = 15
WORTH = 0.25
"""Checked after every WINDOW lookups: below this share of hits, the cache is not used for RESTS times as many lookups."""


class CacheLines(NamedTuple):
    """What the kernel reads and writes: bins, epoch and answer of each entry."""

    bins: NDArray[np.uint16]
    epoch: NDArray[np.int64]
    mask: NDArray[np.uint64]


NO_LINES = CacheLines(np.empty((0, 0), np.uint16), np.empty(0, np.int64), np.empty(0, np.uint64))


class SignatureCache:
    """Holds at most `entries` signatures, rounded up to a power of two; 0 means no cache."""

    def __init__(self, entries: int) -> None:
        self.entries = 1 << (entries - 1).bit_length() if entries > 0 else 0
        self._using = threading.Lock()
        self._lines = NO_LINES
        self.lookups = self.hits = self.bypassed = 0
        self._window_lookups = self._window_hits = self._resting = 0

    def borrow(self, columns: int, events: int) -> CacheLines | None:
        """Returns the entries, for one batch, which must give them back; None if this batch must work without the cache."""
        if not self.entries or not self._using.acquire(blocking=False):
            return None
        if self._resting > 0:
            self._resting -= events
            self.bypassed += events
            self._using.release()
            return None
        if self._lines.bins.shape != (self.entries, columns):
            never = np.full(self.entries, -1, dtype=np.int64)
            shape = (self.entries, columns)
            self._lines = CacheLines(np.zeros(shape, np.uint16), never, np.zeros(self.entries, np.uint64))
        return self._lines

    def give_back(self, lookups: int, hits: int) -> None:
        self.lookups += lookups
        self.hits += hits
        self._window_lookups += lookups
        self._window_hits += hits
        if self._window_lookups >= WINDOW:
            if self._window_hits < WORTH * self._window_lookups:
                self._resting = RESTS * self._window_lookups
            self._window_lookups = self._window_hits = 0
        self._using.release()

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._lines)
