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
def _inside(piece, code, offsets, low, high):
    """Returns whether a test that has several intervals, those of `piece`, admits a code of its hull."""
    first, last = offsets[piece], offsets[piece + 1]
    while last - first > 1:
        middle = (first + last) >> 1
        if low[middle] <= code:
            first = middle
        else:
            last = middle
    return low[first] <= code and code <= high[first]


@inlined
def _may_hold(word, code_of, base, bucket):
    """Returns whether the bucket of an event's code is one of a test's; `word`: slot << 16 | mask."""
    slot = np.int64(word) >> 16
    if slot == 0:
        return word != 0
    code = code_of[slot - 1]
    return code > 0 and (np.int64(word) & (ONE << np.int64(bucket[base[slot - 1] + code]))) != 0


@compiled
def count_work(tests, codes, plan, failed, fallen):
    """Adds to failed[column] the clauses that its hulls exclude, to fallen[rank] those that a pipeline excludes there. Returns the numbers
    of pairs of a clause and an event: all; that match; that do by their hulls; those of clauses with several intervals among them; with a
    gap that holds a value; met under a pivot; compared then; with their lead; predicates counted of these."""
    tests, codes, plan = CodedRows(*tests), EventCodes(*codes), Plan(*plan)
    # An array that is read out of a struct takes a reference to it, atomically: once here, not in every step of a loop.
    offsets, column_of, low, high = tests.offsets, tests.column, tests.low, tests.high
    pieces, piece_offsets, piece_low, piece_high = tests.pieces, tests.piece_offsets, tests.piece_low, tests.piece_high
    pivot_of, way_of, second, third, proven = plan.pivot, plan.way, plan.second, plan.third, plan.proven
    lead_of, two_sided, rank, origin, base, bucket = (
        plan.lead, plan.two_sided, plan.rank, codes.origin, codes.base, codes.bucket,
    )  # fmt: skip
    pieced = len(pieces) > 0
    pairs, matched, survivors, holed, between = 0, 0, 0, 0, 0
    met, checked, led, counted = 0, 0, 0, 0
    for event in range(len(codes.code)):
        code_of = codes.code[event]
        for clause in range(len(offsets) - 1):
            if origin[event] == clause:
                continue
            pairs += 1
            first_failed, holds, several, outside, predicates = NEVER, True, False, False, 0
            pivot = pivot_of[clause]
            is_met = pivot < 0
            for test in range(offsets[clause], offsets[clause + 1]):
                column = column_of[test]
                code = code_of[column]
                above, below = code >= low[test], code <= high[test]
                hull = above and below
                gapped = pieced and pieces[test] >= 0
                exact = hull and (not gapped or _inside(pieces[test], code, piece_offsets, piece_low, piece_high))
                if not hull:
                    failed[column] += 1
                    first_failed = min(first_failed, rank[column])
                    holds = False
                several |= gapped
                outside |= hull and not exact
                if low[test] > 0 and code > 0:
                    predicates += np.int64(above) + np.int64(below) if two_sided[test] else np.int64(hull)
                if test == pivot and code > 0:
                    way = way_of[test]
                    is_met = exact if way == BY_VALUE else below if way == FROM_ABOVE else above
            survives = holds
            if first_failed < NEVER:
                fallen[first_failed] += 1
            matched += survives and not outside
            survivors += survives
            holed += survives and several
            between += outside
            lead = lead_of[clause]
            if lead < 0 or code_of[column_of[lead]] > 0:
                led += 1
                counted += predicates
            if is_met:
                met += 1
                if not proven[clause]:
                    may = _may_hold(second[clause], code_of, base, bucket) and _may_hold(
                        third[clause], code_of, base, bucket
                    )
                    checked += may
    return pairs, matched, survivors, holed, between, met, checked, led, counted
