"""SIENA's counting: per attribute and operator a list of constraints; each that the value satisfies adds one to its subscription's counter,
and a subscription matches when its counter reaches the number of its constraints. A range is two constraints, `>=` and `<=`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.reference.reference_segment import ReferenceSegment, enter, fast, leave, settle, starts_of
from ray_pubsub.kernels.papers.coded_arrays import ClauseTests

__all__ = ["SienaSegment"]


class Constraints(NamedTuple):
    """One operator: column c has the operands and clauses starts[c] … starts[c + 1] - 1, in the order of the operands."""

    starts: Any
    operand: Any
    clause: Any


class Counting(NamedTuple):
    top: Any
    equal: Any
    at_least: Any
    at_most: Any
    """By descending operand, so that what a value satisfies comes first in every list."""
    needed: Any
    count: Any


@fast
def _add(clause, count, needed, out, found):
    count[clause] += 1
    if count[clause] == needed[clause]:
        out[found] = clause
        found += 1
    return found


@fast
def _find(index, carried, out):
    count, needed, found = index.count, index.needed, 0
    count[:] = 0
    for column in carried.columns:
        code = carried.value[column]
        equal, low, high = index.equal, index.at_least, index.at_most
        first, last = equal.starts[column], equal.starts[column + 1]
        place = first + np.searchsorted(equal.operand[first:last], code)
        while place < last and equal.operand[place] == code:
            found = _add(equal.clause[place], count, needed, out, found)
            place += 1
        place, last = low.starts[column], low.starts[column + 1]
        while place < last and low.operand[place] <= code:
            found = _add(low.clause[place], count, needed, out, found)
            place += 1
        place, last = high.starts[column], high.starts[column + 1]
        while place < last and high.operand[place] >= code:
            found = _add(high.clause[place], count, needed, out, found)
            place += 1
    return found


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


class SienaSegment(ReferenceSegment):
    """Counters are shared by all calls: one thread at a time."""

    engine = "siena"
    loop = staticmethod(_loop)

    def _laid_out(self, tests: ClauseTests, top: Any) -> Counting:
        count = len(tests.offsets) - 1
        owner = np.repeat(np.arange(count, dtype=np.int32), np.diff(tests.offsets))
        equal = tests.low == tests.high
        lower = ~equal & (tests.low > 1)
        # Code 1 is the least that is no absence, so `>= 1` says no more than that the attribute is there, which `<=` says too.
        upper = ~equal & ((tests.high < top[tests.column]) | ~lower)
        needed = np.bincount(owner, (equal.astype(np.int64) + lower + upper), count).astype(np.uint16)
        equals = _listed(tests.column, tests.low, owner, equal, 1, len(top))
        at_least = _listed(tests.column, tests.low, owner, lower, 1, len(top))
        at_most = _listed(tests.column, tests.high, owner, upper, -1, len(top))
        return Counting(top, equals, at_least, at_most, needed, np.zeros(count, np.uint16))


def _listed(column: Any, operand: Any, owner: Any, mask: Any, sign: int, columns: int) -> Constraints:
    chosen = np.flatnonzero(mask)
    chosen = chosen[np.lexsort((sign * operand[chosen], column[chosen]))]
    return Constraints(starts_of(column[chosen], columns), operand[chosen], owner[chosen])
