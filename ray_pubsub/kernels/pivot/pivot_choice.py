"""Chooses the pivot test of a clause, and where the clause's entries go (kernels/pivot/pivot_lists.py).

The pivot is the test that leads the fewest events to the clause: the share of events that have the column, times the share of its values
for which a list leads to the test. Values of events are assumed to be distributed partly as the constants of clauses are, so that a
frequent constant is a frequent value, and partly evenly over the constants (EVENLY). The more constants occur only once, the more values
are assumed to be none of the constants (the Good-Turing estimate, halved). Without constants, all codes of a column are equally likely.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.pivot.pivot_lists import BUCKETS, NO_TEST, SLOTS

__all__ = [
    "MOST_POSTED",
    "Choice",
    "Shares",
    "TestWeights",
    "choose_pivots",
    "lay_entries",
    "value_shares",
    "weigh_tests",
]

MOST_POSTED, MOST_RANGED = 512, 16
"""Codes of a test up to which each may have an entry of its own: of a set, of a range. With 512 for a range, boxes around places took
1,700 bytes a clause; with 16 it is 270, and masks and states match the events that then visit a run as fast."""
DEAR = 64
"""This many entries of one clause count as twice the work: they take memory, and that takes time."""
EVENLY = 0.45
BY_VALUE, FROM_ABOVE, FROM_BELOW = 0, 1, 2
NOTHING = 1e-12


class Shares(NamedTuple):
    """What is expected of the values of events that carry a column."""

    base: np.ndarray
    """Column → where its codes begin."""
    top: np.ndarray
    """Column → its largest code."""
    below: np.ndarray
    """base + code → the share of values with this code or a lower one."""
    frequency: np.ndarray
    """Column → the share of events that carry it."""
    bucket: np.ndarray
    """base + code → the bucket of the code."""
    bucket_below: np.ndarray
    """column * (BUCKETS + 1) + bucket → the share of values in lower buckets; the last is the share in all."""
    grown: np.ndarray
    """Column → how many codes there are for each one here, if these tests are a sample of more; else 1."""


class TestWeights(NamedTuple):
    """What choosing needs to know of each test."""

    codes: np.ndarray
    """How many codes it admits."""
    way: np.ndarray
    """How it would be posted."""
    admitted: np.ndarray
    """The share of values that it admits,"""
    led: np.ndarray
    """for which its lists lead to it,"""
    masked: np.ndarray
    """and whose buckets are among its own."""
    mask: np.ndarray
    """Its buckets."""


class Choice(NamedTuple):
    """What was chosen for each clause."""

    pivot: np.ndarray
    """The test, or -1."""
    size: np.ndarray
    """How many entries it has."""
    second: np.ndarray
    third: np.ndarray
    """Other tests, as slot << 16 | mask."""
    proven: np.ndarray
    """Whether the pivot and these prove the clause."""


@compiled
def value_shares(tests, base, top, different):
    """`Shares.below`. `different`: per column how many constants there are, if the tests are a sample of more, else 0."""
    column, low, high, pieces = tests.column, tests.low, tests.high, tests.pieces
    piece_offsets, piece_low, piece_high = tests.piece_offsets, tests.piece_low, tests.piece_high
    below = np.zeros(base[len(top) - 1] + top[len(top) - 1] + 1 if len(top) else 0)
    for test in range(len(column)):
        first = base[column[test]]
        if low[test] <= 0:
            continue
        if len(pieces) == 0 or pieces[test] < 0:
            below[first + low[test]] += low[test] == high[test]
            continue
        begin, end = piece_offsets[pieces[test]], piece_offsets[pieces[test] + 1]
        points = end - begin <= MOST_POSTED
        for piece in range(begin, end):
            points &= piece_low[piece] == piece_high[piece]
        if points:
            for piece in range(begin, end):
                below[first + piece_low[piece]] += 1
    for place in range(len(top)):
        first, last = base[place] + 1, base[place] + top[place] + 1
        named, seen, once = 0.0, 0, 0
        for code in range(first, last):
            named += below[code]
            seen += below[code] > 0
            once += below[code] == 1
        known = named / (named + 1) * (1 - 0.5 * once / named) if named > 0 else 0.0
        # In a sample a constant says how frequent it is only if it occurs again.
        own = 1 if different[place] > 0 else 0
        constants = max(seen, different[place])
        others = max(1, top[place] - seen)
        rest = 1.0
        for code in range(first, last):
            if below[code] > 0:
                drawn = (1 - EVENLY) * (below[code] - own) / max(1.0, named - own)
                below[code] = -known * (drawn + EVENLY / constants)
                rest += below[code]
        so_far = 0.0
        for code in range(first, last):
            so_far += rest / others if below[code] == 0 else -below[code]
            below[code] = so_far
    return below


@compiled
def bucket_shares(base, top, below, bucket, bucket_below):
    """Fills `Shares.bucket` and `Shares.bucket_below`. A pattern is a column of three codes, so columns may be hundreds of thousands."""
    for column in range(len(top)):
        first, at = base[column], column * (BUCKETS + 1)
        for place in range(at, at + BUCKETS + 1):
            bucket_below[place] = 0.0
        for code in range(top[column] + 1):
            share = below[first + code] - below[first + code - 1] if code > 0 else 0.0
            here = np.int64(code)  # few codes: each is a bucket
            if top[column] >= BUCKETS:
                here = np.int64(min(max((below[first + code] - share / 2) * BUCKETS, 0), BUCKETS - 1))
            bucket[first + code] = here
            bucket_below[at + here + 1] += share
        for place in range(at, at + BUCKETS):
            bucket_below[place + 1] += bucket_below[place]


@compiled
def weigh_tests(tests, shares, weights):
    """Computes the weights of all tests, into the arrays of `weights`."""
    # Arrays are taken out of the structs once: to hand a struct on to a function takes a reference to each of them, every time.
    columns, lows, highs, pieces = tests.column, tests.low, tests.high, tests.pieces
    piece_offsets, piece_low, piece_high = tests.piece_offsets, tests.piece_low, tests.piece_high
    bases, tops, below, bucket, bucket_below = shares.base, shares.top, shares.below, shares.bucket, shares.bucket_below
    grown = shares.grown
    out_codes, out_way, out_mask = weights.codes, weights.way, weights.mask
    out_admitted, out_led, out_masked = weights.admitted, weights.led, weights.masked
    for test in range(len(columns)):
        column = columns[test]
        base, top, shares_at = bases[column], tops[column], np.int64(column) * (BUCKETS + 1)
        begin, end = np.int64(-1), np.int64(0)  # one interval, the test's own
        if len(pieces) > 0 and pieces[test] >= 0:
            begin, end = piece_offsets[pieces[test]], piece_offsets[pieces[test] + 1]
        codes, admitted, mask, masked = np.int64(0), 0.0, 0, 0.0
        for piece in range(begin, end):
            low = np.int64(lows[test] if piece < 0 else piece_low[piece])
            high = np.int64(highs[test] if piece < 0 else piece_high[piece])
            if low > high:
                continue
            codes += 1 + np.int64((high - low) * grown[column])
            admitted += below[base + high] - below[base + max(low, 1) - 1]
            # The buckets of a piece; its first one may be the last of the piece before.
            first, behind = np.int64(bucket[base + low]), np.int64(bucket[base + high]) + 1
            first += mask >> first & 1
            if first < behind:
                masked += bucket_below[shares_at + behind] - bucket_below[shares_at + first]
                mask |= (1 << behind) - (1 << first)
        above = below[base + max(highs[test], 0)]
        rest = below[base + top] - below[base + max(lows[test], 1) - 1]
        run = min(above, rest)
        out_codes[test], out_admitted[test], out_masked[test], out_mask[test] = codes, admitted, masked, mask
        most = MOST_POSTED if begin >= 0 else MOST_RANGED
        if codes == 1 or (codes <= most and admitted * (1 + codes / DEAR) < run):
            out_led[test], out_way[test] = admitted, BY_VALUE
        else:
            out_led[test], out_way[test] = run, FROM_ABOVE if above <= rest else FROM_BELOW


@compiled
def choose_pivots(tests, shares, weights, choice):
    """Chooses the pivot of each clause and two other tests to check, into the arrays of `choice`."""
    offsets, columns, lows, highs, pieces = tests.offsets, tests.column, tests.low, tests.high, tests.pieces
    top, frequency = shares.top, shares.frequency
    codes, way, led, masked, mask = weights.codes, weights.way, weights.led, weights.masked, weights.mask
    pivots, sizes, seconds, thirds, provens = choice
    for clause in range(len(offsets) - 1):
        first, last = offsets[clause], offsets[clause + 1]
        pivot, best, possible = np.int64(-1), np.inf, True
        for test in range(first, last):
            possible &= codes[test] > 0
            if lows[test] > 0:  # the test needs the column to be present
                dear = 1 + codes[test] / DEAR if way[test] == BY_VALUE else 1.0
                weight = frequency[columns[test]] * (led[test] + NOTHING) * dear
                if weight < best:
                    pivot, best = test, weight
        if not possible:
            pivot = np.int64(-1)
        pivots[clause], sizes[clause] = pivot, 1
        seconds[clause], thirds[clause] = NO_TEST if possible else 0, NO_TEST
        provens[clause] = first == last
        if pivot < 0:
            continue
        if way[pivot] == BY_VALUE:
            sizes[clause] = codes[pivot]
        # A run proves a range without a second end; buckets settle a test if every code of its column has one of its own.
        settled = way[pivot] == BY_VALUE or (
            (len(pieces) == 0 or pieces[pivot] < 0)
            and (lows[pivot] <= 1 if way[pivot] == FROM_ABOVE else highs[pivot] >= top[columns[pivot]])
        )
        least, less = np.inf, np.inf
        asked, exact = 0, 0
        for test in range(first, last):
            if test == pivot and settled:
                continue
            asked += 1
            if lows[test] <= 0:
                continue
            column = columns[test]
            exact += top[column] < BUCKETS
            share = masked[test] / max(NOTHING, led[test]) if test == pivot else masked[test] * frequency[column]
            word = (1 + column % SLOTS) << 16 | np.int64(mask[test])
            if share < least:
                least, less = share, least
                thirds[clause] = seconds[clause]
                seconds[clause] = word
            elif share < less:
                less = share
                thirds[clause] = word
        provens[clause] = asked <= 2 and exact == asked and len(top) <= SLOTS


@compiled
def lay_entries(tests, shares, weights, choice, keys, clauses):
    """A sort key (fill_directory's) and the clause of every entry."""
    columns, lows, highs, pieces = tests.column, tests.low, tests.high, tests.pieces
    piece_offsets, piece_low, piece_high = tests.piece_offsets, tests.piece_low, tests.piece_high
    bases, top, pivots, way = shares.base, shares.top, choice.pivot, weights.way
    spread = len(shares.below)
    filled = 0
    for clause in range(len(pivots)):
        pivot = pivots[clause]
        if pivot < 0:
            keys[filled], clauses[filled] = 3 * spread, clause
            filled += 1
            continue
        column = columns[pivot]
        base = bases[column]
        if way[pivot] != BY_VALUE:
            runs = spread + 2 * base
            keys[filled] = runs + highs[pivot] if way[pivot] == FROM_ABOVE else runs + top[column] + 1 + lows[pivot]
            clauses[filled] = clause
            filled += 1
            continue
        begin, end = np.int64(-1), np.int64(0)
        if len(pieces) > 0 and pieces[pivot] >= 0:
            begin, end = piece_offsets[pieces[pivot]], piece_offsets[pieces[pivot] + 1]
        for piece in range(begin, end):
            low = lows[pivot] if piece < 0 else piece_low[piece]
            high = highs[pivot] if piece < 0 else piece_high[piece]
            for code in range(low, high + 1):
                keys[filled], clauses[filled] = base + code, clause
                filled += 1
