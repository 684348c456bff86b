"""Counts the work that events make in each engine, on a sample of clauses and a sample of events, for the cost model
(engines/selection/sampled_work.py). Multiplying the shares of tests that hold would assume that attributes are independent, which they
rarely are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.compiled import compiled, inlined
from ray_pubsub.kernels.pivot.clause_rows import CodedRows
from ray_pubsub.kernels.pivot.pivot_choice import BY_VALUE, FROM_ABOVE

__all__ = ["NEVER", "EventCodes", "Plan", "count_work"]

NEVER = 2**30
"""The rank of a column that is not a step of a pipeline."""
ONE = np.int64(1)


class EventCodes(NamedTuple):
    code: Any
    """int32[event, column]; 0 is absence."""
    origin: Any
    """The clause that an event was made from, with which it is not compared; -1 if there is none."""
    base: Any
    """Column → where its codes begin in `bucket`."""
    bucket: Any
    """Place → the bucket of the code (kernels/pivot/pivot_lists.py)."""


class Plan(NamedTuple):
    """What engines would do with each clause."""

    pivot: Any
    """The test that is the pivot, or -1;"""
    way: Any
    """for each test, how it would be posted."""
    second: Any
    third: Any
    """Two other tests, as slot << 16 | mask."""
    proven: Any
    """Whether these prove the clause."""
    lead: Any
    """The test on the clause's rarest column, or -1."""
    two_sided: Any
    """For each test whether it is two predicates."""
    rank: Any
    """Column → its place in the order in which a pipeline excludes clauses."""


@inlined
def _inside(test, code, tests):
    """Returns whether a test that may have several intervals admits a code of its hull."""
    if len(tests.pieces) == 0 or tests.pieces[test] < 0:
        return True
    first, last = tests.piece_offsets[tests.pieces[test]], tests.piece_offsets[tests.pieces[test] + 1]
    while last - first > 1:
        middle = (first + last) >> 1
        if tests.piece_low[middle] <= code:
            first = middle
        else:
            last = middle
    return tests.piece_low[first] <= code and code <= tests.piece_high[first]


@inlined
def _may_hold(word, event, codes):
    """Returns whether the bucket of an event's code is one of a test's; `word`: slot << 16 | mask."""
    slot = np.int64(word) >> 16
    if slot == 0:
        return word != 0
    code = codes.code[event, slot - 1]
    return code > 0 and (np.int64(word) & (ONE << np.int64(codes.bucket[codes.base[slot - 1] + code]))) != 0


@compiled
def count_work(tests, codes, plan, failed, fallen):
    """Adds to failed[column] the clauses that its hulls exclude, to fallen[rank] those that a pipeline excludes there. Returns the numbers
    of pairs of a clause and an event: all; that match; that do by their hulls; those of clauses with several intervals among them; with a
    gap that holds a value; met under a pivot; compared then; with their lead; predicates counted of these."""
    tests, codes, plan = CodedRows(*tests), EventCodes(*codes), Plan(*plan)
    pairs, matched, survivors, holed, between = 0, 0, 0, 0, 0
    met, checked, led, counted = 0, 0, 0, 0
    for event in range(len(codes.code)):
        for clause in range(len(tests.offsets) - 1):
            if codes.origin[event] == clause:
                continue
            pairs += 1
            first_failed, holds, several, outside, predicates = NEVER, True, False, False, 0
            pivot = plan.pivot[clause]
            is_met = pivot < 0
            for test in range(tests.offsets[clause], tests.offsets[clause + 1]):
                column = tests.column[test]
                code = codes.code[event, column]
                above, below = code >= tests.low[test], code <= tests.high[test]
                hull = above and below
                exact = hull and _inside(test, code, tests)
                if not hull:
                    failed[column] += 1
                    first_failed = min(first_failed, plan.rank[column])
                    holds = False
                several |= len(tests.pieces) > 0 and tests.pieces[test] >= 0
                outside |= hull and not exact
                if tests.low[test] > 0 and code > 0:
                    predicates += np.int64(above) + np.int64(below) if plan.two_sided[test] else np.int64(hull)
                if test == pivot and code > 0:
                    way = plan.way[test]
                    is_met = exact if way == BY_VALUE else below if way == FROM_ABOVE else above
            survives = holds
            if first_failed < NEVER:
                fallen[first_failed] += 1
            matched += survives and not outside
            survivors += survives
            holed += survives and several
            between += outside
            lead = plan.lead[clause]
            if lead < 0 or codes.code[event, tests.column[lead]] > 0:
                led += 1
                counted += predicates
            if is_met:
                met += 1
                if not plan.proven[clause]:
                    may = _may_hold(plan.second[clause], event, codes) and _may_hold(plan.third[clause], event, codes)
                    checked += may
    return pairs, matched, survivors, holed, between, met, checked, led, counted
