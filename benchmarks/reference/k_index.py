"""k-index: conjunctions by their size k; per size, attribute and value a list of the conjunctions that ask for that value. Of the lists of
an event, ordered by their current conjunction, the first and the kth must agree, else all before the kth skip forward to it.

A range is written out value by value, so memory grows with the values: beyond a bound the segment is refused, as in OpIndex Fig. 8.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.reference.reference_segment import ReferenceSegment, TooLargeError, enter, fast, leave, settle
from ray_pubsub.kernels.papers.coded_arrays import ClauseTests

__all__ = ["MOST_POSTINGS", "KIndexSegment"]

MOST_POSTINGS = 60_000_000


class Postings(NamedTuple):
    """Key: size * codes + base[column] + code. keys[i] has the clauses starts[i] … starts[i + 1] - 1, ascending."""

    top: Any
    base: Any
    largest: Any
    keys: Any
    starts: Any
    clause: Any


@fast
def _sort_lists(at, end, clause, count):
    """Insertion sort by the current clause; lists at their end come last."""
    for item in range(1, count):
        here, until = at[item], end[item]
        value = clause[here] if here < until else 2**31 - 1
        place = item
        while place > 0:
            before = clause[at[place - 1]] if at[place - 1] < end[place - 1] else 2**31 - 1
            if before <= value:
                break
            at[place], end[place] = at[place - 1], end[place - 1]
            place -= 1
        at[place], end[place] = here, until


@fast
def _find(index, carried, out):
    codes = index.base[-1]
    at, end = np.empty(len(carried.columns), np.int64), np.empty(len(carried.columns), np.int64)
    clause, found = index.clause, 0
    for size in range(1, min(index.largest, len(carried.columns)) + 1):
        count = 0
        for column in carried.columns:
            key = size * codes + index.base[column] + carried.value[column]
            place = np.searchsorted(index.keys, key)
            if place < len(index.keys) and index.keys[place] == key:
                at[count], end[count] = index.starts[place], index.starts[place + 1]
                count += 1
        if count < size:
            continue
        _sort_lists(at, end, clause, count)
        while at[size - 1] < end[size - 1]:
            wanted = clause[at[size - 1]]
            if clause[at[0]] == wanted:
                out[found] = wanted
                found += 1
                wanted += 1
            for place in range(count):
                if at[place] < end[place] and clause[at[place]] < wanted:
                    at[place] += np.searchsorted(clause[at[place] : end[place]], wanted)
            _sort_lists(at, end, clause, count)
    return found


@fast
def _write_out(tests, base, keys, clause):
    filled = 0
    for owner in range(len(tests.offsets) - 1):
        size = tests.offsets[owner + 1] - tests.offsets[owner]
        for test in range(tests.offsets[owner], tests.offsets[owner + 1]):
            for code in range(tests.low[test], tests.high[test] + 1):
                keys[filled] = size * base[-1] + base[tests.column[test]] + code
                clause[filled] = owner
                filled += 1


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


class KIndexSegment(ReferenceSegment):
    engine = "k-index"
    loop = staticmethod(_loop)

    def _laid_out(self, tests: ClauseTests, top: Any) -> Postings:
        total = int((tests.high.astype(np.int64) - tests.low + 1).sum())
        if total > MOST_POSTINGS:
            raise TooLargeError("k-index", total, MOST_POSTINGS)
        base = np.concatenate([[0], np.cumsum(top.astype(np.int64) + 1)])
        keys, clause = np.empty(total, np.int64), np.empty(total, np.int32)
        _write_out(tests, base, keys, clause)
        order = np.argsort(keys, kind="stable")
        distinct, starts = np.unique(keys[order], return_index=True)
        largest = int(np.diff(tests.offsets).max(initial=0))
        return Postings(top, base, largest, distinct, np.append(starts, total), clause[order])
