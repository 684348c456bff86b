"""Estimates how many entries of pivot lists an event visits, with the current pivots and with those that would be chosen now."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.coding import CodeSpace
from ray_pubsub.engines.contract import Frequency, PivotCost
from ray_pubsub.engines.pivot.lists import coded_of_rows, coded_rows, pivots_of, shares_of, weights_of
from ray_pubsub.kernels.pivot.pivot_lists import PROVEN, PivotLists

__all__ = ["cost_of_pivots"]

SAMPLE = 65_536
"""The largest number of clauses examined; of more, evenly spaced ones are taken."""


def cost_of_pivots(lists: PivotLists, rows: NDArray[np.uint32], space: CodeSpace, frequency: Frequency) -> PivotCost:
    """`rows`: where the row of each clause starts. Clauses without a pivot are visited by every event in any case, and are not counted."""
    step = max(1, -(-len(rows) // SAMPLE))
    chosen = np.arange(0, len(rows), step)
    tests = coded_rows(coded_of_rows(space, lists.words, rows[chosen]))
    # A constant and the gap behind it have a code each.
    shares = shares_of(tests, space, frequency, space.top / 2 if step > 1 else None)
    weights = weights_of(tests, shares)
    expected = shares.frequency[tests.column] * weights.led
    best = pivots_of(tests, shares, weights).pivot
    own = _pivot_columns(lists, space, len(rows))[chosen]
    is_own = tests.column == np.repeat(own, np.diff(tests.offsets))
    scale = len(rows) / max(1, len(chosen))
    return PivotCost(scale * float(expected[is_own].sum()), scale * float(expected[best[best >= 0]].sum()))


def _pivot_columns(lists: PivotLists, space: CodeSpace, clauses: int) -> NDArray[np.int64]:
    """Returns for each clause the column of its first entry, -1 if it has no pivot. Entries are stored by value, column after column,
    then in runs."""
    starts = lists.entries[3::4] & np.uint32(PROVEN - 1)
    first: NDArray[Any] = np.arange(len(starts))
    if len(starts) > clauses:  # rows are in the order of first entries, so a row beyond all earlier ones is new
        so_far = np.maximum.accumulate(starts)
        first = np.flatnonzero(np.append(True, starts[1:] > so_far[:-1]))
    begins = lists.directory.reshape(-1, 4)[lists.base]
    column = np.searchsorted(np.append(begins[:, 0], begins[:, 2]), first, side="right") - 1
    return np.where(first < lists.universal, column % max(1, space.columns), -1)
