"""H-Tree: the domains of some attributes are cut into a few cells each, and a subscription is filed under every combination of cells that
its ranges touch. An event looks into the few buckets of its own cells and checks what is there.

A subscription that does not test an indexed attribute is in that attribute's extra cell, which every event looks into. Wide ranges touch
many cells, and copies multiply: beyond a bound the segment is refused, as the papers' machines ran out of memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.reference.reference_segment import ReferenceSegment, TooLargeError, enter, fast, holds, leave, settle
from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Frequency
from ray_pubsub.kernels.papers.coded_arrays import ClauseTests

__all__ = ["MOST_COPIES", "HTreeSegment"]

MOST_COPIES = 30_000_000


class Buckets(NamedTuple):
    """Bucket number: the cells of the indexed columns as digits, the extra cell being the last digit."""

    top: Any
    tests: ClauseTests
    indexed: Any
    width: Any
    cells: Any
    starts: Any
    clause: Any


@fast
def _find(index, carried, out):
    levels, base, found = len(index.indexed), index.cells + 1, 0
    for chosen in range(1 << levels):  # bit set: the extra cell of that level
        bucket, reachable = 0, True
        for level in range(levels):
            code = carried.value[index.indexed[level]]
            extra = chosen >> level & 1
            reachable &= extra == 1 or code > 0
            bucket = bucket * base + (index.cells if extra else code // index.width[level])
        if not reachable:
            continue
        for place in range(index.starts[bucket], index.starts[bucket + 1]):
            clause = index.clause[place]
            out[found] = clause
            found += holds(index.tests, clause, carried.value)
    return found


@fast
def _store(index, place_of, clause_starts, clause, filling):
    """Counts the copies in each bucket in clause_starts[bucket + 2], or writes them. Returns how many copies there are."""
    tests, levels, base = index.tests, len(index.indexed), index.cells + 1
    low, high, digit = np.empty(levels, np.int64), np.empty(levels, np.int64), np.empty(levels, np.int64)
    total = 0
    for owner in range(len(tests.offsets) - 1):
        if tests.offsets[owner] == tests.offsets[owner + 1]:
            continue  # it is free
        low[:], high[:] = index.cells, index.cells
        for test in range(tests.offsets[owner], tests.offsets[owner + 1]):
            level = place_of[tests.column[test]]
            if level >= 0:
                low[level], high[level] = tests.low[test] // index.width[level], tests.high[test] // index.width[level]
        copies = 1
        for level in range(levels):
            copies *= high[level] - low[level] + 1
        total += copies
        if len(clause_starts) == 0:
            continue
        digit[:] = low
        for _ in range(copies):
            bucket = 0
            for level in range(levels):
                bucket = bucket * base + digit[level]
            if filling:
                clause[clause_starts[bucket + 1]] = owner
                clause_starts[bucket + 1] += 1
            else:
                clause_starts[bucket + 2] += 1
            level = levels - 1
            while level >= 0:
                digit[level] += 1
                if digit[level] <= high[level]:
                    break
                digit[level] = low[level]
                level -= 1
    return total


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


class HTreeSegment(ReferenceSegment):
    """`cells` of each of `indexed` columns, those that most clauses test. GEM takes 4 and 6, REIN 6 and 6."""

    engine = "h-tree"
    loop = staticmethod(_loop)

    def __init__(
        self,
        table: ClauseTable,
        vocabulary: Vocabulary,
        frequency: Frequency = None,
        *,
        cells: int = 4,
        indexed: int = 6,
    ) -> None:
        self._cells, self._indexed = cells, indexed
        super().__init__(table, vocabulary)

    def _laid_out(self, tests: ClauseTests, top: Any) -> Buckets:
        uses = np.bincount(tests.column, minlength=len(top))
        indexed = np.argsort(-uses, kind="stable")[: self._indexed]
        width = -(-(top[indexed].astype(np.int64) + 1) // self._cells)
        nothing = np.empty(0, np.int64)
        index = Buckets(top, tests, indexed, width, self._cells, nothing, np.empty(0, np.int32))
        place_of = np.full(len(top), -1, np.int64)
        place_of[indexed] = np.arange(len(indexed))
        copies = _store(index, place_of, nothing, index.clause, False)
        if copies > MOST_COPIES:
            raise TooLargeError("h-tree", copies, MOST_COPIES)
        starts = np.zeros((self._cells + 1) ** len(indexed) + 2, np.int64)
        _store(index, place_of, starts, index.clause, False)
        np.cumsum(starts, out=starts)
        clause = np.empty(copies, np.int32)
        _store(index, place_of, starts, clause, True)
        return index._replace(starts=starts, clause=clause)
