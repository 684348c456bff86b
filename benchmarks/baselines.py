"""Two compiled references, well optimised, that use none of our indexes: `auto` is compared with them."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["ColumnarScan", "InvertedLists"]


@njit(nogil=True, cache=True)
def _scan(columns, low, high, values, out):
    """Scans column by column; from the second on only the survivors, which are a list."""
    count = low.shape[1]
    left = 0
    for clause in range(count):
        out[left] = clause
        left += (low[0, clause] <= values[0]) & (values[0] <= high[0, clause])
    for column in range(1, columns):
        kept = 0
        value = values[column]
        for place in range(left):
            clause = out[place]
            out[kept] = clause
            kept += (low[column, clause] <= value) & (value <= high[column, clause])
        left = kept
    return left


class ColumnarScan:
    """All bounds in columns, unconstrained ones from the least to the largest integer. For W1 and W2."""

    def __init__(self, workload):
        shape = (workload.attributes, workload.subscriptions)
        limits = np.iinfo(np.int32)
        self.low, self.high = np.full(shape, limits.min, np.int32), np.full(shape, limits.max, np.int32)
        owner = np.repeat(np.arange(workload.subscriptions), np.diff(workload.offsets))
        self.low[workload.attribute, owner] = workload.low
        self.high[workload.attribute, owner] = workload.high
        self.out = np.empty(workload.subscriptions + 1, np.int32)

    def match(self, values):
        return self.out[: _scan(len(self.low), self.low, self.high, values, self.out)]


@njit(nogil=True, cache=True)
def _lists(offsets, attribute, low, high, attributes):
    starts = np.zeros(attributes + 1, np.int64)
    for test in range(len(attribute)):
        starts[attribute[test] + 1] += 1
    for number in range(attributes):
        starts[number + 1] += starts[number]
    place = starts.copy()
    owner = np.empty(len(attribute), np.int32)
    lows, highs = np.empty(len(attribute), np.uint8), np.empty(len(attribute), np.uint8)
    sizes = np.empty(len(offsets) - 1, np.uint8)
    for clause in range(len(offsets) - 1):
        sizes[clause] = offsets[clause + 1] - offsets[clause]
        for test in range(offsets[clause], offsets[clause + 1]):
            target = place[attribute[test]]
            place[attribute[test]] += 1
            owner[target], lows[target], highs[target] = clause, low[test], high[test]
    return starts, owner, lows, highs, sizes


@njit(nogil=True, cache=True)
def _count(event_offsets, event_attribute, event_value, starts, owner, low, high, left, touched, out_offsets, out):
    """left[clause] counts its predicates down; changed counters are restored after each event."""
    filled = 0
    for event in range(len(event_offsets) - 1):
        count = 0
        for cell in range(event_offsets[event], event_offsets[event + 1]):
            attribute, value = event_attribute[cell], event_value[cell]
            for place in range(starts[attribute], starts[attribute + 1]):
                touched[count] = owner[place]
                count += (low[place] <= value) & (value <= high[place])
        for place in range(count):
            clause = touched[place]
            left[clause] -= 1
            out[filled] = clause
            filled += left[clause] == 0
        for place in range(count):
            left[touched[place]] += 1
        out_offsets[event + 1] = filled
    return filled


class InvertedLists:
    """A list of predicates per attribute, byte counters per subscription. For W3."""

    def __init__(self, workload):
        fields = (workload.offsets, workload.attribute, workload.low, workload.high)
        self.lists = _lists(*fields, workload.attributes)
        self.touched = np.empty(len(workload.attribute), np.int32)
        self.offsets = np.zeros(workload.events + 1, np.int64)
        self.out = np.empty(max(1_000_000, workload.subscriptions), np.int32)
        self.workload = workload

    def match(self):
        workload = self.workload
        cells = (workload.event_offsets, workload.event_attribute, workload.event_value)
        return _count(*cells, *self.lists, self.touched, self.offsets, self.out)
