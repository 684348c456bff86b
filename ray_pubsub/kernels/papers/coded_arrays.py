"""What the kernels of the papers' engines share: the tests of clauses and the values of events, as codes in columns."""

from __future__ import annotations

from typing import Any, NamedTuple

from ray_pubsub.kernels.compiled import compiled

__all__ = ["ClauseTests", "EventCells", "merge_tests"]


class ClauseTests(NamedTuple):
    """Clause i has the tests offsets[i] … offsets[i + 1] - 1; each admits the codes low … high of its column."""

    offsets: Any
    column: Any
    low: Any
    high: Any


class EventCells(NamedTuple):
    """Event i has the codes code[offsets[i]:offsets[i + 1]], in the columns beside them."""

    offsets: Any
    column: Any
    code: Any


@compiled
def merge_tests(tests, top, place, merged):
    """Returns one test per clause and column: several are intersected, one that admits every code is dropped. An empty intersection has
    its low above its high. Returns how many are left in `merged`. `place`: -1 per column."""
    filled = 0
    for clause in range(len(tests.offsets) - 1):
        first = filled
        merged.offsets[clause] = first
        for test in range(tests.offsets[clause], tests.offsets[clause + 1]):
            column, low, high = tests.column[test], tests.low[test], tests.high[test]
            if low == 0 and high == top[column]:
                continue
            known = place[column]
            if known >= first:
                merged.low[known], merged.high[known] = max(merged.low[known], low), min(merged.high[known], high)
            else:
                place[column] = filled
                merged.column[filled], merged.low[filled], merged.high[filled] = column, low, high
                filled += 1
    merged.offsets[-1] = filled
    return filled
