"""Converts tests in CSR form to bounds in columns, and a dense segment's rows back to tests."""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.dense.clustering import FREE_HIGH, FREE_LOW

__all__ = ["list_tests", "scatter_bounds"]


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


@compiled
def list_tests(rows, exact, least, top, places, tests):
    """Returns the tests of the clauses at these places (kernels/dense/bitmaps.py, build_rows) to `tests`: offsets, columns, lows and
    highs, with room for one per clause and column. Returns how many they are."""
    offsets, column, low, high = tests
    columns = len(top)
    filled = 0
    for number in range(len(places)):
        place = places[number]
        for each in range(columns):
            low_code, high_code = np.int64(rows[place, each]), 255 - np.int64(rows[place, columns + each])
            if low_code == 0 and high_code == 255:
                continue
            lower, upper = np.int64(0), np.int64(FREE_HIGH)
            if low_code != 0:
                lower = max(1, np.int64(least[each, low_code]) + np.int64(exact[place, each]))
            if high_code != 255:
                upper = np.int64(least[each, high_code]) + np.int64(exact[place, columns + each])
            column[filled] = each
            low[filled] = lower
            high[filled] = min(upper, np.int64(top[each]))
            filled += 1
        offsets[number + 1] = filled
    return filled
