"""TAMA: per attribute a tree of dyadic cells, `levels` deep. A range is stored in the few cells that make it up; at the ends it is rounded
outwards to the finest cells, so what is found may be too much, never too little. A value counts for all ranges in the cells above it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.reference.reference_segment import ReferenceSegment, enter, fast, leave, settle
from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Frequency
from ray_pubsub.kernels.papers.coded_arrays import ClauseTests

__all__ = ["TamaSegment"]


class Cells(NamedTuple):
    """Column c has leaves[c] finest cells, each width[c] codes wide. Its cells are numbered first[c] + 1 (the root), its cell n has the
    children 2n and 2n + 1; in cell n are the clauses starts[n] … starts[n + 1] - 1."""

    top: Any
    leaves: Any
    width: Any
    first: Any
    starts: Any
    clause: Any
    needed: Any
    count: Any


@fast
def _find(index, carried, out):
    count, needed, found = index.count, index.needed, 0
    count[:] = 0
    for column in carried.columns:
        node = index.leaves[column] + carried.value[column] // index.width[column]
        while node >= 1:
            cell = index.first[column] + node
            for place in range(index.starts[cell], index.starts[cell + 1]):
                clause = index.clause[place]
                count[clause] += 1
                if count[clause] == needed[clause]:
                    out[found] = clause
                    found += 1
            node >>= 1
    return found


@fast
def _store(tests, leaves, width, first, starts, clause, filling):
    """Counts the entries of each cell in starts[cell + 2], or writes them, after which starts[cell + 1] is the end of the cell."""
    for owner in range(len(tests.offsets) - 1):
        for test in range(tests.offsets[owner], tests.offsets[owner + 1]):
            column = tests.column[test]
            low = leaves[column] + tests.low[test] // width[column]
            high = leaves[column] + tests.high[test] // width[column] + 1
            while low < high:
                for side in range(2):
                    if (low & 1 if side == 0 else high & 1) == 0:
                        continue
                    if side == 0:
                        cell = first[column] + low
                        low += 1
                    else:
                        high -= 1
                        cell = first[column] + high
                    if filling:
                        clause[starts[cell + 1]] = owner
                        starts[cell + 1] += 1
                    else:
                        starts[cell + 2] += 1
                low >>= 1
                high >>= 1


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


class TamaSegment(ReferenceSegment):
    """`levels`: of discretization; 13 is what REIN and GEM compare themselves with."""

    engine = "tama"
    loop = staticmethod(_loop)

    def __init__(
        self, table: ClauseTable, vocabulary: Vocabulary, frequency: Frequency = None, *, levels: int = 13
    ) -> None:
        self._levels = levels
        super().__init__(table, vocabulary)

    def _laid_out(self, tests: ClauseTests, top: Any) -> Cells:
        codes = top.astype(np.int64) + 1
        exact = 1 << np.ceil(np.log2(np.maximum(codes, 2))).astype(np.int64)
        leaves = np.minimum(exact, 1 << self._levels)
        width = -(-codes // leaves)
        first = np.concatenate([[0], np.cumsum(2 * leaves)])
        starts = np.zeros(int(first[-1]) + 2, np.int64)
        layout = (tests, leaves, width, first)
        _store(*layout, starts, np.empty(0, np.int32), False)
        np.cumsum(starts, out=starts)
        clause = np.empty(int(starts[-1]), np.int32)
        _store(*layout, starts, clause, True)
        needed = np.diff(tests.offsets).astype(np.uint16)
        return Cells(top, leaves, width, first, starts, clause, needed, np.zeros(len(needed), np.uint16))
