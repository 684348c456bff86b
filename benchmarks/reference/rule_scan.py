"""SF, the priority paper's brute force: every rule is evaluated, test by test, until one fails."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.reference.reference_segment import ReferenceSegment, enter, fast, holds, leave, settle
from ray_pubsub.kernels.papers.coded_arrays import ClauseTests

__all__ = ["RuleScanSegment"]


class Rules(NamedTuple):
    top: Any
    tests: ClauseTests


@fast
def _find(index, carried, out):
    found, tests = 0, index.tests
    for clause in range(len(tests.offsets) - 1):
        if tests.offsets[clause] < tests.offsets[clause + 1]:
            out[found] = clause
            found += holds(tests, clause, carried.value)
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


class RuleScanSegment(ReferenceSegment):
    engine = "sf"
    loop = staticmethod(_loop)

    def _laid_out(self, tests: ClauseTests, top: Any) -> Rules:
        return Rules(top, tests)
