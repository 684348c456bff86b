"""A plain scan as one writes it today: bounds in columns, a first column compared for all clauses, each later one for the survivors. It has
no index at all; an index that is slower than this is not worth its memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.reference.reference_segment import ReferenceSegment, TooLargeError, enter, fast, leave, settle
from ray_pubsub.kernels.papers.coded_arrays import ClauseTests

__all__ = ["MOST_COLUMNS", "ColumnScanSegment"]

MOST_COLUMNS = 64
"""With more, a matrix of all bounds is mostly empty."""


class Columns(NamedTuple):
    """low[column, clause] … high[column, clause]; where a clause does not test a column, all codes."""

    top: Any
    low: Any
    high: Any


@fast
def _find(index, carried, out):
    columns, clauses = index.low.shape
    left = 0
    for column in range(columns):
        code, low, high = carried.value[column], index.low[column], index.high[column]
        if column == 0:
            for clause in range(clauses):
                out[left] = clause
                left += (low[clause] <= code) & (code <= high[clause])
        else:
            kept = 0
            for place in range(left):
                clause = out[place]
                out[kept] = clause
                kept += (low[clause] <= code) & (code <= high[clause])
            left = kept
    return left


@fast
def _loop(index, rest, events, first, offsets, out):
    value = np.zeros(len(index.top), np.int32)
    for event in range(first, len(events.offsets) - 1):
        if len(out) - offsets[event] <= rest.clauses:
            return event
        carried, room = enter(events, event, value), out[offsets[event] :]
        found = _find(index, carried, room)
        offsets[event + 1] = offsets[event] + settle(rest, value, found, room)
        leave(events, event, value)
    return len(events.offsets) - 1


class ColumnScanSegment(ReferenceSegment):
    engine = "columns"
    loop = staticmethod(_loop)

    def _laid_out(self, tests: ClauseTests, top: Any) -> Columns:
        if len(top) > MOST_COLUMNS:
            raise TooLargeError("columns", len(top), MOST_COLUMNS)
        count = len(tests.offsets) - 1
        low, high = np.zeros((len(top), count), np.int32), np.full((len(top), count), np.iinfo(np.int32).max, np.int32)
        owner = np.repeat(np.arange(count), np.diff(tests.offsets))
        low[tests.column, owner], high[tests.column, owner] = tests.low, tests.high
        if len(
            top
        ):  # clauses without required tests are free, and hopeless ones match nothing: both are not for the scan
            high[0, np.diff(tests.offsets) == 0] = -1
        return Columns(top, low, high)
