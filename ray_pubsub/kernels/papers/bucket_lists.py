"""REIN's bucket lists (section IV.C) as arrays, and its event matching (section IV.D, the algorithm of Fig. 4).

The codes of a column are cut into cells of 2**shift codes, and a cell is a bucket: cell g of column c has number first[c] + g, the same in
every block of clauses. One list holds a bound of all tests, grouped by (block, column, bucket):

    starts[block * cells + number]   where the bucket begins; the next entry is where it ends
    ids, values                      a clause's number within its block, and the bound itself

So "the buckets before b" and "the buckets after b" are one run of ids each, and are marked without looking at a value. A bound that
excludes nothing (low 0, high top) is in no list: a free attribute costs an empty run.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.papers.gap_toggles import exclude_gaps

__all__ = ["BucketIndex", "BucketList", "Grid", "Scratch", "bucket_grid", "bucket_list", "match_buckets"]

WORD = 64
ZERO, ONE, ALL_ONES = np.uint64(0), np.uint64(1), ~np.uint64(0)
LARGEST = np.iinfo(np.int32).max


class Grid(NamedTuple):
    """How codes fall into cells: those of column c are first[c] … first[c + 1] - 1, each 2**shift[c] codes wide."""

    first: Any
    shift: Any


class BucketList(NamedTuple):
    """One bound of all tests, grouped by block, column and bucket."""

    starts: Any
    ids: Any
    values: Any


class BucketIndex(NamedTuple):
    """REIN's whole index: `lows` and `highs` are bucket lists over one grid, of blocks of `block` clauses; `gaps`: GapToggles."""

    grid: Any
    lows: Any
    highs: Any
    block: Any
    gaps: Any


class Scratch(NamedTuple):
    """`codes`, one per column, is zero between calls; `marked` and `spare` have a bit for each clause of a block."""

    codes: Any
    marked: Any
    spare: Any


@compiled
def bucket_grid(column, top, blocks, most, share):
    """At most `most` cells a column, and one for every `share` tests it has in a block: a column few clauses test gets few cells, so all
    starts together are a fraction of the tests. The cell after the last code exists: it takes bounds that no value reaches."""
    columns = len(top)
    tests = np.zeros(columns, np.int64)
    for test in range(len(column)):
        tests[column[test]] += 1
    first = np.zeros(columns + 1, np.int64)
    shift = np.zeros(columns, np.int64)
    for place in range(columns):
        wanted = min(most, max(1, tests[place] // (share * blocks)))
        while ((np.int64(top[place]) + 1) >> shift[place]) + 1 > wanted and (top[place] + 1) >> shift[place]:
            shift[place] += 1
        first[place + 1] = first[place] + ((np.int64(top[place]) + 1) >> shift[place]) + 1
    return first, shift


@compiled
def bucket_list(offsets, column, bound, free, block, grid):
    """Groups the bounds that are not free[column] by counting: (starts, ids, values)."""
    count = len(offsets) - 1
    cells = grid.first[-1]
    blocks = (count + block - 1) // block
    starts = np.zeros(blocks * cells + 1, np.int64)
    for clause in range(count):
        base = (clause // block) * cells
        for test in range(offsets[clause], offsets[clause + 1]):
            place = column[test]
            if bound[test] != free[place]:
                starts[base + grid.first[place] + (bound[test] >> grid.shift[place]) + 1] += 1
    for cell in range(blocks * cells):
        starts[cell + 1] += starts[cell]
    behind = starts[:-1].copy()
    ids = np.empty(starts[-1], np.uint16)
    values = np.empty(starts[-1], np.int32)
    for clause in range(count):
        base = (clause // block) * cells
        for test in range(offsets[clause], offsets[clause + 1]):
            place = column[test]
            if bound[test] != free[place]:
                cell = base + grid.first[place] + (bound[test] >> grid.shift[place])
                ids[behind[cell]] = clause % block
                values[behind[cell]] = bound[test]
                behind[cell] += 1
    return starts, ids, values


@compiled
def mark_run(ids, bits):
    """Sets the bits of a run of clauses. Over a slice, not over a range of places: 0.45 ns a bit instead of 0.75, as no place can be
    negative and wrap around."""
    for clause in ids:
        bits[clause >> 6] |= ONE << np.uint64(clause & 63)


@compiled
def mark_compared(ids, values, least, largest, bits):
    """Sets the bits of the clauses whose value is not within least … largest, without a branch."""
    for clause, value in zip(ids, values):  # noqa: B905 (numba knows no strict)
        bits[clause >> 6] |= np.uint64((value < least) | (value > largest)) << np.uint64(clause & 63)


@compiled
def mark_excluded(column, code, base, grid, lows, highs, marked):
    """Lines 6 to 19 of Fig. 4 for one attribute of one block: values are compared in the bucket of the event's code only."""
    begin, end = base + grid.first[column], base + grid.first[column + 1]
    cell = begin + (code >> grid.shift[column])
    start, stop = highs.starts[cell], highs.starts[cell + 1]
    mark_compared(highs.ids[start:stop], highs.values[start:stop], code, LARGEST, marked)
    mark_run(highs.ids[highs.starts[begin] : start], marked)
    start, stop = lows.starts[cell], lows.starts[cell + 1]
    mark_compared(lows.ids[start:stop], lows.values[start:stop], 0, code, marked)
    mark_run(lows.ids[stop : lows.starts[end]], marked)


@compiled
def match_buckets(index, count, events, first_event, scratch, offsets, out):
    """Matches events from `first_event` on until `out` is full: returns the next event, and the room it needs more. `count`: of clauses."""
    grid, lows, highs, block, gaps = index
    codes, marked, spare = scratch
    columns = len(grid.shift)
    cells = grid.first[-1]
    last_event = len(events.offsets) - 1
    filled = offsets[first_event]
    for event in range(first_event, last_event):
        for cell in range(events.offsets[event], events.offsets[event + 1]):
            codes[events.column[cell]] = events.code[cell]
        short = 0
        for start in range(0, count, block):
            size = min(block, count - start)
            words = (size + WORD - 1) // WORD
            marked[:words] = ZERO
            if size % WORD:
                marked[words - 1] = ALL_ONES << np.uint64(size % WORD)
            base = (start // block) * cells
            column = 0
            while column < columns:
                # Absence is below every low bound, and the lists of neighbouring columns are one run.
                absent = column
                while column < columns and codes[column] == 0:
                    column += 1
                run = slice(lows.starts[base + grid.first[absent]], lows.starts[base + grid.first[column]])
                mark_run(lows.ids[run], marked)
                if column < columns:
                    mark_excluded(column, codes[column], base, grid, lows, highs, marked)
                column += 1
            for word in range(words):
                marked[word] = ~marked[word]
            exclude_gaps(gaps, codes, start // block, words, spare, marked)
            if filled + size > len(out):
                short = size
                break
            for word in range(words):
                left = marked[word]
                while left != ZERO:
                    out[filled] = start + word * WORD + np.int64(trailing_zeros(left))
                    filled += 1
                    left &= left - ONE
        for cell in range(events.offsets[event], events.offsets[event + 1]):
            codes[events.column[cell]] = 0
        if short:
            return event, short
        offsets[event + 1] = filled
    return last_event, 0
