"""DEXIN's sorted boundaries: exclusive and inclusive method (section 3.3), pipeline (section 3.4.1), and cached bit sets for the first.

The lists are REIN's (kernels/papers/bucket_lists.py) with the bounds sorted inside each slot: array for array of slots, sorted run for
RB-tree. So a value's position among the low bounds is one load and a short binary search, and what the exclusive method removes is two
runs: the low bounds after that position and the high bounds before it.

A bit set of partial results changes only at boundaries: going up, a clause's bit turns on at its low bound and off after its high bound.
A cached bit set is the state at one code, with its positions in both lists. The state at any other code is the cache with one bit
flipped per boundary in between, in whichever direction (GEM section II.G). Flips commute, so low and high bounds are replayed one after
the other. This needs one test per clause and column (`merge_tests`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from ray_pubsub.kernels.compiled import compiled, inlined
from ray_pubsub.kernels.intrinsics import prefetch
from ray_pubsub.kernels.papers.bucket_lists import ALL_ONES, LARGEST, ONE, WORD, ZERO
from ray_pubsub.kernels.papers.gap_toggles import exclude_gaps

__all__ = [
    "BoundaryIndex", "Caches", "Lists", "Rows", "Scratch", "all_on", "cache_stride", "exclude", "fill_caches", "match_pipeline",
    "place_caches", "sort_slots",
]  # fmt: skip

AHEAD = 8
LEAST_STRIDE = 16


class Rows(NamedTuple):
    """The tests by clause, for the inclusive method: test t is `tests[3 * t:3 * t + 3]`: column, low, high."""

    offsets: Any
    tests: Any


class Caches(NamedTuple):
    """The caches of list block * columns + column are first[list] … first[list + 1] - 1, by ascending code. Cache k lies after the
    bounds before low[k] and high[k], and its bits begin at bits[word[k]]."""

    first: Any
    low: Any
    high: Any
    word: Any
    bits: Any


class Lists(NamedTuple):
    """The bucket lists of low and of high bounds, sorted. There are `count` clauses, in blocks of `block`."""

    lows: Any
    highs: Any
    columns: Any
    count: Any
    block: Any


class BoundaryIndex(NamedTuple):
    """DEXIN's whole index. `omega`: the caches of a column that all clauses test. `gaps`: GapToggles."""

    grid: Any
    lists: Any
    caches: Any
    rows: Any
    omega: Any
    gaps: Any


class Scratch(NamedTuple):
    """`codes`, one per column, is zero between calls; `alive` and `spare` have a bit, `survivors` a number for each clause of a block."""

    codes: Any
    alive: Any
    spare: Any
    survivors: Any


@compiled
def sort_slots(bounds):
    """Sorts the bounds of every slot, with their clauses: a shell sort, as most slots are short but skewed values make long ones."""
    for slot in range(len(bounds.starts) - 1):
        first, last = bounds.starts[slot], bounds.starts[slot + 1]
        values, ids = bounds.values[first:last], bounds.ids[first:last]
        gap = 1
        while 3 * gap + 1 < last - first:
            gap = 3 * gap + 1
        while gap > 0:
            for unsorted in range(gap, last - first):
                value, clause = values[unsorted], ids[unsorted]
                place = unsorted
                while place >= gap and values[place - gap] > value:
                    values[place], ids[place] = values[place - gap], ids[place - gap]
                    place -= gap
                values[place], ids[place] = value, clause
            gap //= 3


@inlined
def cache_stride(size, omega):
    """2n/ω boundaries between caches, in a block of n = size clauses."""
    return max(LEAST_STRIDE, 2 * size // max(1, omega))


@compiled
def place_caches(lists, low_first, high_first, omega):
    """A cache at code 0 and at the first code after every 2n/ω boundaries, in lists with at least that many: (first, low, high, word,
    words of bits). Boundaries at the same code never have a cache between them, so such caches are one.

    The list of number l (block * columns + column) has the low bounds low_first[l] … low_first[l + 1] - 1, and the high bounds likewise."""
    lows, highs, columns, count, block = lists
    numbers = len(low_first) - 1
    first = np.zeros(numbers + 1, np.int64)
    for number in range(numbers):
        boundaries = low_first[number + 1] - low_first[number] + high_first[number + 1] - high_first[number]
        stride = cache_stride(min(block, count - number // columns * block), omega)
        first[number + 1] = first[number] + (boundaries // stride + 1 if omega and boundaries >= stride else 0)
    low, high, word = np.zeros(first[-1], np.int64), np.zeros(first[-1], np.int64), np.zeros(first[-1], np.int64)
    used = 0
    for number in range(numbers):
        size = min(block, count - number // columns * block)
        at_low, at_high = low_first[number], high_first[number]
        wanted = at_low + at_high
        for cache in range(first[number], first[number + 1]):
            if cache == first[number] or at_low + at_high < wanted:
                used += (size + WORD - 1) // WORD
            while at_low + at_high < wanted:
                low_code = lows.values[at_low] if at_low < low_first[number + 1] else LARGEST
                high_code = highs.values[at_high] + 1 if at_high < high_first[number + 1] else LARGEST
                code = min(low_code, high_code)
                while at_low < low_first[number + 1] and lows.values[at_low] == code:
                    at_low += 1
                while at_high < high_first[number + 1] and highs.values[at_high] + 1 == code:
                    at_high += 1
            low[cache], high[cache], word[cache] = at_low, at_high, used - (size + WORD - 1) // WORD
            wanted += cache_stride(size, omega)
    return first, low, high, word, used


@compiled
def fill_caches(lists, low_first, high_first, caches, state):
    """At code 0 all clauses are on but those that need the column; every further cache is the one before, replayed. `state`: a block's
    bits."""
    lows, highs, columns, count, block = lists
    for number in range(len(low_first) - 1):
        words = all_on(min(block, count - number // columns * block), state)
        at_low, at_high = low_first[number], high_first[number]
        _flip(lows.ids[at_low : low_first[number + 1]], state)
        for cache in range(caches.first[number], caches.first[number + 1]):
            _flip(lows.ids[at_low : caches.low[cache]], state)
            _flip(highs.ids[at_high : caches.high[cache]], state)
            at_low, at_high = caches.low[cache], caches.high[cache]
            for word in range(words):
                caches.bits[caches.word[cache] + word] = state[word]


@compiled
def all_on(size, bits):
    words = (size + WORD - 1) // WORD
    bits[:words] = ALL_ONES
    if size % WORD:
        bits[words - 1] = ~(ALL_ONES << np.uint64(size % WORD))
    return words


@compiled
def _flip(ids, bits):
    for clause in ids:
        bits[clause >> 6] ^= ONE << np.uint64(clause & 63)


@compiled
def _remove(ids, bits):
    for clause in ids:
        bits[clause >> 6] &= ~(ONE << np.uint64(clause & 63))


@compiled
def _flip_where(ids, alive, bits):
    """Flips the bits of the clauses that are alive."""
    for clause in ids:
        word, shift = clause >> 6, np.uint64(clause & 63)
        bits[word] ^= ((alive[word] >> shift) & ONE) << shift


@inlined
def _first_from(values, first, last, code):
    """The first place whose value is at least `code`."""
    while first < last:
        middle = (first + last) >> 1
        if values[middle] < code:
            first = middle + 1
        else:
            last = middle
    return first


@compiled
def exclude(index, column, code, place, size, alive, spare):
    """Algorithm 1 on one attribute of block `place`, which has `size` clauses: takes from `alive` what the code excludes. True if the
    result is in `spare`.

    With S̃ = alive, C = cache and F = flips, S̃ ∧ (C ⊕ F) = (S̃ ∧ C) ⊕ (S̃ ∧ F): one pass over the words, then flips of what was alive."""
    grid, lows, highs, caches = index.grid, index.lists.lows, index.lists.highs, index.caches
    words = (size + WORD - 1) // WORD
    base = place * grid.first[-1]
    begin, end = base + grid.first[column], base + grid.first[column + 1]
    slot = begin + (code >> grid.shift[column])
    low_start, high_start, low_end = lows.starts[begin], highs.starts[begin], lows.starts[end]
    low_at = _first_from(lows.values, lows.starts[slot], lows.starts[slot + 1], code + 1)
    high_at = _first_from(highs.values, highs.starts[slot], highs.starts[slot + 1], code)
    removals = low_end - low_at + high_at - high_start
    list_ = place * len(grid.shift) + column
    first, last = caches.first[list_], caches.first[list_ + 1]
    if last > first:
        position = low_at - low_start + high_at - high_start
        cache = first + position // cache_stride(size, index.omega)
        behind = low_at - caches.low[cache] + high_at - caches.high[cache]
        if cache + 1 < last:
            ahead = caches.low[cache + 1] - low_at + caches.high[cache + 1] - high_at
            if ahead < behind:
                cache, behind = cache + 1, ahead
        if behind + words < removals:  # a word ANDed costs what a removal or a flip does
            bits = caches.bits[caches.word[cache] : caches.word[cache] + words]
            for word in range(words):
                spare[word] = alive[word] & bits[word]
            cache_low, cache_high = caches.low[cache], caches.high[cache]
            _flip_where(lows.ids[min(low_at, cache_low) : max(low_at, cache_low)], alive, spare)
            _flip_where(highs.ids[min(high_at, cache_high) : max(high_at, cache_high)], alive, spare)
            return True
    _remove(lows.ids[low_at:low_end], alive)
    _remove(highs.ids[high_start:high_at], alive)
    return False


@compiled
def match_pipeline(index, events, first_event, plans, first_planned, scratch, offsets, out):
    """Algorithm 3 for the planned events from `first_event` on, until `out` is full: returns the next event, the room it needs more, the
    steps of the exclusive method, and how many of them began at a cache.

    Event e of the batch has plan e - first_planned of `plans`, a tuple: for each its columns in their order, and how many of the first are
    taken by the exclusive method, the others by the inclusive one."""
    rows, count, block = index.rows, index.lists.count, index.lists.block
    codes, alive, spare, survivors = scratch
    order, exclusive = plans
    columns = len(index.grid.shift)
    filled = offsets[first_event]
    taken, cached = 0, 0
    for event in range(first_event, first_planned + len(exclusive)):
        plan = event - first_planned
        taken_before, cached_before = taken, cached
        for cell in range(events.offsets[event], events.offsets[event + 1]):
            codes[events.column[cell]] = events.code[cell]
        short = 0
        for start in range(0, count, block):
            size = min(block, count - start)
            words = all_on(size, alive)
            place = start // block
            exclude_gaps(index.gaps, codes, place, words, spare, alive)
            taken += exclusive[plan]
            for step in range(exclusive[plan]):
                column = order[plan, step]
                if exclude(index, column, codes[column], place, size, alive, spare):
                    alive, spare = spare, alive
                    cached += 1
            found = 0
            for word in range(words):
                left = alive[word]
                while left != ZERO:
                    survivors[found] = start + word * WORD + np.int64(trailing_zeros(left))
                    found += 1
                    left &= left - ONE
            if filled + found > len(out):
                short = found
                break
            if exclusive[plan] == columns:
                for survivor in range(found):
                    out[filled + survivor] = survivors[survivor]
                filled += found
            else:
                filled = _include(survivors, found, rows, codes, out, filled)
        for cell in range(events.offsets[event], events.offsets[event + 1]):
            codes[events.column[cell]] = 0
        if short:
            return event, short, taken_before, cached_before  # this event is started again
        offsets[event + 1] = filled
    return first_planned + len(exclusive), 0, taken, cached


@compiled
def _include(survivors, found, rows, codes, out, filled):
    """Algorithm 2 on all attributes left, with the loops exchanged: a clause meets its own tests until one fails."""
    for place in range(found):
        prefetch(rows.tests, 3 * np.int64(rows.offsets[survivors[min(place + AHEAD, found - 1)]]))
        clause = survivors[place]
        holds = True
        for test in range(3 * np.int64(rows.offsets[clause]), 3 * np.int64(rows.offsets[clause + 1]), 3):
            code = codes[rows.tests[test]]
            if code < rows.tests[test + 1] or code > rows.tests[test + 2]:
                holds = False
                break
        out[filled] = clause
        filled += holds
    return filled
