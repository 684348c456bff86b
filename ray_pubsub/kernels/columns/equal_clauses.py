"""Finds equal clauses, test by test: different subscribers often use the same conditions."""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled, inlined
from ray_pubsub.kernels.intrinsics import prefetch

__all__ = ["count_members", "expand_event", "expand_groups", "group_equal"]

AHEAD = 16
"""Groups that are asked for ahead: where most have one or two members, nearly each is in another line of the cache."""
FRACTION = 2.0**52
ODD, LARGE_ODD = 0x2545F4914F6CDD1D, 0x5851F42D4C957F2D
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@inlined
def mixed(state, value):
    state = (state ^ np.uint64(value)) * MULTIPLIER
    return state ^ (state >> np.uint64(29))


@compiled
def group_equal(offsets, tests, table, group, first):
    """group[i] = the number of clause i's group, groups numbered by their first clause, first[g]. Returns the number of groups.

    `table`: a power of two of places, at least twice the clauses, all -1. Clauses are equal if their tests are, in order. A number's rest
    is compared as a number; two clauses that only differ in their tests' order stay apart, which costs memory and nothing else."""
    attribute, form, kind, lows, highs = tests
    low_side, low, low_rest = lows
    high_side, high, high_rest = highs
    groups = 0
    mask = np.uint64(len(table) - 1)
    for clause in range(len(offsets) - 1):
        start, end = offsets[clause], offsets[clause + 1]
        state = np.uint64(end - start)
        for test in range(start, end):
            words = np.int64(low[test]) * ODD + np.int64(high[test])
            small = (np.int64(attribute[test]) << 6) + (kind[test] << 4) + (low_side[test] << 2) + high_side[test]
            rests = np.int64(low_rest[test] * FRACTION) + 3 * np.int64(high_rest[test] * FRACTION)
            state = mixed(state, words + small * LARGE_ODD + rests * ODD)
        place = (state ^ (state >> np.uint64(32))) & mask
        while True:
            other = table[place]
            if other < 0:
                table[place] = groups
                first[groups] = clause
                group[clause] = groups
                groups += 1
                break
            begin = offsets[first[other]]
            same = offsets[first[other] + 1] - begin == end - start
            for step in range(end - start):
                if not same:
                    break
                one, two = start + step, begin + step
                same = (
                    attribute[one] == attribute[two]
                    and low[one] == low[two]
                    and high[one] == high[two]
                    and form[one] == form[two]
                    and kind[one] == kind[two]
                    and low_side[one] == low_side[two]
                    and high_side[one] == high_side[two]
                    and low_rest[one] == low_rest[two]
                    and high_rest[one] == high_rest[two]
                )
            if same:
                group[clause] = other
                break
            place = (place + np.uint64(1)) & mask
    return groups


@compiled
def count_members(groups, member_offsets):
    """Returns how many members the groups have."""
    members = 0
    for place in range(len(groups)):
        if place + AHEAD < len(groups):
            prefetch(member_offsets, np.int64(groups[place + AHEAD]))
        group = groups[place]
        members += np.int64(member_offsets[group + 1]) - np.int64(member_offsets[group])
    return members


@compiled
def expand_groups(offsets, groups, member_offsets, members, out_offsets, out):
    """Matches as groups to matches as members."""
    target = 0
    for event in range(len(offsets) - 1):
        for place in range(offsets[event], offsets[event + 1]):
            if place + 2 * AHEAD < len(groups):
                prefetch(member_offsets, np.int64(groups[place + 2 * AHEAD]))
                prefetch(members, np.int64(member_offsets[groups[place + AHEAD]]))
            group = groups[place]
            for member in range(np.int64(member_offsets[group]), np.int64(member_offsets[group + 1])):
                out[target] = members[member]
                target += 1
        out_offsets[event + 1] = target


@compiled
def expand_event(groups, member_offsets, members):
    """The members of an event's groups."""
    out = np.empty(count_members(groups, member_offsets), np.int64)
    offsets = np.array([0, len(groups)])
    expand_groups(offsets, groups, member_offsets, members, np.zeros(2, np.int64), out)
    return out
