"""How long deliveries waited: quantiles from a histogram of bounded size."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import groupby

__all__ = ["Waits"]

PER_OCTAVE = 8
SHORTEST = 1e-6
LONGEST_OCTAVE = 40  # SHORTEST * 2**40 is 12 days
EDGES = [SHORTEST * 2 ** (step / PER_OCTAVE) for step in range(LONGEST_OCTAVE * PER_OCTAVE + 1)]


class Waits:
    """Counts per bucket; a bucket's upper edge is 2**(1/8), 9%, above its lower one. Waits of a microsecond or less are in the first
    bucket, waits longer than the last edge, 12 days, in the last. The counts are a dict, because few buckets are ever used.

    Counts can be taken back exactly, which sketches that merge neighbouring values cannot do.
    """

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def add(self, enqueued: Iterable[float], now: float, weight: int = 1) -> None:
        """Records that entries enqueued at these times left at `now`; weight -1 takes that back."""
        counts = self._counts
        # The entries of one batch have one time.
        for instant, group in groupby(enqueued):
            bucket = bisect_left(EDGES, now - instant)
            counts[bucket] = counts.get(bucket, 0) + weight * len(list(group))

    def quantile(self, part: float) -> float | None:
        """Returns a wait that `part` of the deliveries did not exceed: the upper edge of the exact quantile's bucket, so at most 9%
        above it. None if nothing was delivered."""
        left = part * sum(self._counts.values())
        for bucket in sorted(self._counts):
            left -= self._counts[bucket]
            if self._counts[bucket] and left <= 0:
                return EDGES[min(bucket, len(EDGES) - 1)]
        return None
