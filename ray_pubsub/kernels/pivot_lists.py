"""Sparse matching: every clause sits under one of its tests, its pivot; an event looks up its own values and meets only
clauses whose pivot holds.

Positions are numbered in pivot order. First all equality pivots, by (column, code). Then the range pivots, by column: those that
only bound from above by their high code, followed by the others by their low code. The pivots that hold for a code v are a suffix of the
first list and a prefix of the second; the lists are neighbours, so they are one run. Last the clauses without a pivot.

    directory[base[column] + code] = equality run (start, end), range run (start, end)     one cache line per value of an event
    check[2 * position]              another column the clause needs: most candidates die here, by one load from a byte array
                                     (the column count itself, whose presence is EMIT: the run alone proves the clause)
    check[2 * position + 1]          the clause's owner, in the same cache line: apart, it was a miss per match (15 µs an event, not 7)
    tests in CSR by position         for the few that are left
"""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled, inlined
from ray_pubsub.kernels.intrinsics import prefetch

__all__ = ["choose_pivots", "count_order", "fill_directory", "fill_tests", "match_events"]

ABSENT, PRESENT, EMIT = 0, 1, 2


@compiled
def choose_pivots(offsets, column, low, high, pieces, top, frequency, base, spread, keys, second):
    """Per clause a sort key and a second column. `spread` is the size of the directory (one entry per column and code).

    The pivot minimises frequency times width: how often events carry the column, and how many of its codes the test admits
    (OpIndex formula 1, with the test's own selectivity added)."""
    columns = len(top)
    for clause in range(len(offsets) - 1):
        first, last = offsets[clause], offsets[clause + 1]
        pivot = -1
        best = np.inf
        for test in range(first, last):
            if low[test] > 0:  # the test needs the column to be present
                place = column[test]
                weight = frequency[place] * ((high[test] - low[test] + 1) / top[place])
                if weight < best:
                    best = weight
                    pivot = test
        if pivot < 0:
            keys[clause] = 3 * spread
            second[clause] = columns if first == last else columns + 1
            continue
        place = column[pivot]
        proven = len(pieces) == 0 or pieces[pivot] < 0  # a test with holes is never proven by its hull
        if low[pivot] == high[pivot]:
            keys[clause] = base[place] + low[pivot]
        elif low[pivot] <= 1:
            keys[clause] = spread + 2 * base[place] + high[pivot]
        else:
            keys[clause] = spread + 2 * base[place] + (top[place] + 1) + low[pivot]
            proven &= high[pivot] >= top[place]
        needed = -1
        for test in range(first, last):
            if test != pivot and low[test] > 0 and (needed < 0 or frequency[column[test]] < frequency[needed]):
                needed = column[test]
        if needed >= 0:
            second[clause] = needed
        else:
            second[clause] = columns if proven and last - first == 1 else place


@compiled
def count_order(keys, bins):
    """Clauses in the order of their keys, and where each key's run starts."""
    starts = np.zeros(bins + 2, np.int64)
    for clause in range(len(keys)):
        starts[keys[clause] + 1] += 1
    for key in range(bins + 1):
        starts[key + 1] += starts[key]
    place = starts[:-1].copy()
    order = np.empty(len(keys), np.int64)
    for clause in range(len(keys)):
        order[place[keys[clause]]] = clause
        place[keys[clause]] += 1
    return order, starts


@compiled
def fill_directory(starts, base, top, directory):
    spread = len(directory) // 4
    for column in range(len(top)):
        for code in range(top[column] + 1):
            entry = base[column] + code
            ranges = spread + 2 * base[column]
            directory[4 * entry] = starts[entry]
            directory[4 * entry + 1] = starts[entry + 1]
            directory[4 * entry + 2] = starts[ranges + code]
            directory[4 * entry + 3] = starts[ranges + (top[column] + 1) + code + 1]


@compiled
def fill_tests(
    order, offsets, column, low, high, pieces, second, owners, test_offsets, test_column, test_low, test_high, test_pieces, check
):  # fmt: skip
    """The tests, renumbered by position."""
    target = 0
    for position in range(len(order)):
        clause = order[position]
        check[2 * position] = second[clause]
        check[2 * position + 1] = owners[clause]
        test_offsets[position] = target
        for test in range(offsets[clause], offsets[clause + 1]):
            test_column[target] = column[test]
            test_low[target] = low[test]
            test_high[target] = high[test]
            if len(pieces):
                test_pieces[target] = pieces[test]
            target += 1
    test_offsets[len(order)] = target


@inlined
def _ask_directory(event, offsets, column, code, base, directory):
    for cell in range(offsets[event], offsets[event + 1]):
        prefetch(directory, (base[column[cell]] + code[cell]) * 4)


@inlined
def _ask_runs(event, offsets, column, code, base, directory, check):
    for cell in range(offsets[event], offsets[event + 1]):
        entry = (base[column[cell]] + code[cell]) * 4
        prefetch(check, 2 * np.int64(directory[entry]))
        prefetch(check, 2 * np.int64(directory[entry + 2]))
        prefetch(check, 2 * np.int64(directory[entry + 3]) - 2)


@compiled
def match_events(
    first_event, offsets, column, code, base, directory, universal, check, test_offsets, test_column, test_low, test_high,
    test_pieces, piece_offsets, piece_low, piece_high, presence, codes, candidates, out_offsets, out,
):  # fmt: skip
    """Owners of matching clauses, event by event from `first_event` on; returns the first event that no longer fits `out`.

    `presence` is zero but for its last two places (EMIT, PRESENT) and `codes` is zero; both are left so. `universal` is the first
    position without a pivot."""
    events = len(offsets) - 1
    count = len(check) // 2
    filled = out_offsets[first_event]
    for event in range(first_event, min(first_event + 2, events)):
        _ask_directory(event, offsets, column, code, base, directory)
    for event in range(first_event, events):
        # Two events ahead the directory is asked for, one ahead, when it has come, the runs it points at.
        if event + 2 < events:
            _ask_directory(event + 2, offsets, column, code, base, directory)
        if event + 1 < events:
            _ask_runs(event + 1, offsets, column, code, base, directory, check)
        for cell in range(offsets[event], offsets[event + 1]):
            presence[column[cell]] = PRESENT
            codes[column[cell]] = code[cell]
        found = 0
        for cell in range(offsets[event], offsets[event + 1]):
            entry = (base[column[cell]] + code[cell]) * 4
            for run in range(entry, entry + 4, 2):
                for position in range(directory[run], directory[run + 1]):
                    candidates[found] = position
                    found += presence[check[2 * position]] != ABSENT  # no branch: most fail, but not predictably
        for position in range(universal, count):
            candidates[found] = position
            found += presence[check[2 * position]] != ABSENT
        fits = filled + found <= len(out)
        if fits:
            for candidate in range(found):
                position = candidates[candidate]
                holds = True
                if presence[check[2 * position]] != EMIT:
                    for test in range(test_offsets[position], test_offsets[position + 1]):
                        value = codes[test_column[test]]
                        holds &= (value >= test_low[test]) & (value <= test_high[test])
                    if holds and len(test_pieces):
                        for test in range(test_offsets[position], test_offsets[position + 1]):
                            piece = test_pieces[test]
                            if piece >= 0:
                                value = codes[test_column[test]]
                                inside = False
                                for number in range(piece_offsets[piece], piece_offsets[piece + 1]):
                                    inside |= (value >= piece_low[number]) & (value <= piece_high[number])
                                holds &= inside
                out[filled] = check[2 * position + 1]
                filled += holds
        for cell in range(offsets[event], offsets[event + 1]):
            presence[column[cell]] = ABSENT
            codes[column[cell]] = 0
        if not fits:
            return event, found
        out_offsets[event + 1] = filled
    return events, 0
