"""Tests in CSR form to bounds in columns."""

from __future__ import annotations

from ray_pubsub.kernels.clustering import FREE_LOW
from ray_pubsub.kernels.compiled import compiled

__all__ = ["scatter_bounds"]


@compiled
def scatter_bounds(offsets, column, low, high, top, low_out, high_out):
    """low_out[column, clause] and high_out[column, clause] of every test; the outputs come filled with the free bounds.

    "Present, no low bound" is one above free, so that it takes no quantile away from real bounds. Two tests of a column are intersected."""
    for clause in range(len(offsets) - 1):
        for test in range(offsets[clause], offsets[clause + 1]):
            place = column[test]
            if low[test] > 1:
                low_out[place, clause] = max(low_out[place, clause], low[test])
            elif low[test] == 1:
                low_out[place, clause] = max(low_out[place, clause], FREE_LOW + 1)
            if high[test] < top[place]:
                high_out[place, clause] = min(high_out[place, clause], high[test])
