"""One event against bit sets of clauses: for events that visit many entries of the pivot lists.

    state(v)    of a column: the clauses whose test on it holds for code v, and those that have none
    ids         clauses, by (column, code): those that change between state(code - 1) and state(code)
    rows        some states of each column, so that about equally many changes lie between them

So the state at any code is a stored one with a run of `ids` flipped, forwards or backwards from the nearest row. The AND of the columns'
states has the matches, and nothing is compared: where thousands match, comparing each takes most of the time. Only clauses that test
columns without states, or a column twice, (those that are not `closed`) are compared (kernels/pivot/row_check.py).

This is GEM's cached bit sets (section II.G) over DEXIN's boundaries, but for the intervals of sets too, and for one event as for many.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from ray_pubsub.kernels.compiled import compiled, inlined
from ray_pubsub.kernels.intrinsics import count_ones, line_and, prefetch
from ray_pubsub.kernels.pivot.row_check import row_holds

__all__ = [
    "StateTables",
    "choose_rows",
    "count_changes",
    "fill_changes",
    "fill_rows",
    "match_states",
    "match_states_event",
]

ZERO, ONE = np.uint64(0), np.uint64(1)
AHEAD = 8
"""Candidates whose rows are asked for ahead."""


class StateTables(NamedTuple):
    column: Any
    """The columns that have states."""
    base: Any
    """For each of them where its codes begin among the places."""
    nearest: Any
    """Place → the row that is nearest to the code."""
    place: Any
    """Row → the place whose state it is."""
    filled: Any
    """Row → how many bits it has."""
    rows: Any
    """uint64[row, word], in whole lines of 512 bits. The last row has a bit for every clause."""
    offsets: Any
    """The changes at place p are ids[offsets[p]:offsets[p + 1]]; at the first place of a column there are none."""
    ids: Any
    closed: Any
    """The clauses that test no other column."""
    starts: Any
    """Clause → where its row of tests starts (kernels/pivot/clause_rows.py)."""
    owners: Any


class StateScratch(NamedTuple):
    codes: Any
    """One per column; zero between calls."""
    candidates: Any
    """Room for all clauses."""
    alive: Any
    spare: Any
    """A bit for each clause."""


@inlined
def _pieces_of(tests, test):
    """The range of the pieces of a test; if it is one interval, its own, the range of -1."""
    begin, end = np.int64(-1), np.int64(0)
    if len(tests.pieces) > 0 and tests.pieces[test] >= 0:
        begin, end = tests.piece_offsets[tests.pieces[test]], tests.piece_offsets[tests.pieces[test] + 1]
    return begin, end


@inlined
def _interval(tests, test, piece):
    if piece < 0:
        return np.int64(tests.low[test]), np.int64(tests.high[test])
    return np.int64(tests.piece_low[piece]), np.int64(tests.piece_high[piece])


@compiled
def count_changes(tests, covered, base, top, offsets, first, closed):
    """Counts the changes at each place into offsets[place + 1], the clauses at a column's first place into `first` (bit sets by column),
    and notes which clauses are closed. `covered`: column → its number among those that have states, or -1."""
    tested = np.full(len(base), -1, np.int64)
    for clause in range(len(tests.offsets) - 1):
        word, bit = clause >> 6, ONE << np.uint64(clause & 63)
        closed[word] |= bit
        for test in range(tests.offsets[clause], tests.offsets[clause + 1]):
            number = covered[tests.column[test]]
            if number < 0 or tested[number] == clause:  # a state has one test of a clause
                closed[word] &= ~bit
                continue
            tested[number] = clause
            begin, end = _pieces_of(tests, test)
            for piece in range(begin, end):
                low, high = _interval(tests, test, piece)
                if low > high:
                    continue
                if low == 0:
                    first[number, word] |= bit
                else:
                    offsets[base[number] + low + 1] += 1
                if high < top[number]:
                    offsets[base[number] + high + 2] += 1
        for number in range(len(base)):
            if tested[number] != clause:
                first[number, word] |= bit


@compiled
def fill_changes(tests, covered, base, top, behind, ids):
    """Lists the changes. `behind`: place → where its changes begin, which is moved behind them."""
    tested = np.full(len(base), -1, np.int64)
    for clause in range(len(tests.offsets) - 1):
        for test in range(tests.offsets[clause], tests.offsets[clause + 1]):
            number = covered[tests.column[test]]
            if number < 0 or tested[number] == clause:
                continue
            tested[number] = clause
            begin, end = _pieces_of(tests, test)
            for piece in range(begin, end):
                low, high = _interval(tests, test, piece)
                if low > high:
                    continue
                if low > 0:
                    place = base[number] + low
                    ids[behind[place]] = clause
                    behind[place] += 1
                if high < top[number]:
                    place = base[number] + high + 1
                    ids[behind[place]] = clause
                    behind[place] += 1


@compiled
def choose_rows(base, top, stored, offsets, nearest, place_of):
    """Chooses stored[column] states of each column, and for each place the nearest of them. Returns how many there are."""
    rows = 0
    for number in range(len(base)):
        begin, last = base[number], base[number] + top[number]
        start, changes = offsets[begin], offsets[last + 1] - offsets[begin]
        first_row = rows
        place_of[rows] = begin
        rows += 1
        for place in range(begin + 1, last + 1):
            chosen = rows - first_row
            due = (offsets[place + 1] - start) * stored[number] >= chosen * changes
            if due and chosen < stored[number] and offsets[place + 1] > offsets[place]:
                place_of[rows] = place
                rows += 1
        row = first_row
        for place in range(begin, last + 1):
            at = offsets[place + 1]
            while row + 1 < rows and abs(offsets[place_of[row + 1] + 1] - at) <= abs(at - offsets[place_of[row] + 1]):
                row += 1
            nearest[place] = row
    return rows


@compiled
def fill_rows(base, top, first, bits):
    """Fills the chosen states, column by column, by flipping what changes."""
    bits = StateTables(*bits)
    rows, offsets, ids, place_of = bits.rows, bits.offsets, bits.ids, bits.place
    row = 0
    state = np.empty(rows.shape[1], np.uint64)
    for number in range(len(base)):
        state[:] = first[number]
        for place in range(base[number], base[number] + top[number] + 1):
            for change in range(offsets[place], offsets[place + 1]):
                clause = np.int64(ids[change])
                state[clause >> 6] ^= ONE << np.uint64(clause & 63)
            if row < len(place_of) and place_of[row] == place:
                rows[row] = state
                row += 1
    for number in range(len(place_of)):
        ones = ZERO
        for word in range(rows.shape[1]):
            ones += count_ones(rows[number, word])
        bits.filled[number] = np.int64(ones)


@compiled
def _and_states(bits, codes, alive, spare):
    """Leaves in `alive` the clauses that hold as far as columns have states. Returns how many there are."""
    base, nearest, place_of, filled, rows = bits.base, bits.nearest, bits.place, bits.filled, bits.rows
    offsets, ids, column = bits.offsets, bits.ids, bits.column
    clauses, words = len(bits.owners), rows.shape[1]
    alive_at, spare_at, rows_at = alive.ctypes.data, spare.ctypes.data, rows.ctypes.data
    begun = False
    for number in range(len(column)):
        place = base[number] + codes[column[number]]
        row = np.int64(nearest[place])
        begin, end = np.int64(offsets[place + 1]), np.int64(offsets[place_of[row] + 1])
        if begin > end:
            begin, end = end, begin
        if begin == end:
            if filled[row] == clauses:
                continue
            if begun:
                for line in range(0, words * 8, 64):
                    line_and(alive_at + line, alive_at + line, rows_at + row * words * 8 + line)
                continue
        target = spare if begun else alive
        for word in range(words):
            target[word] = rows[row, word]
        for change in range(begin, end):
            clause = np.int64(ids[change])
            target[clause >> 6] ^= ONE << np.uint64(clause & 63)
        if begun:
            for line in range(0, words * 8, 64):
                line_and(alive_at + line, alive_at + line, spare_at + line)
        begun = True
    if not begun:
        for word in range(words):
            alive[word] = rows[len(rows) - 1, word]
    ones = ZERO
    for word in range(words):
        ones += count_ones(alive[word])
    return np.int64(ones)


@compiled
def _append_owners(bits, words, codes, alive, candidates, out, filled):
    """Appends the owners of the clauses in `alive` that hold. Returns how many there are in `out` then."""
    owners, starts, closed = bits.owners, bits.starts, bits.closed
    found = 0
    for word in range(len(closed)):
        left = alive[word]
        if left == ZERO:
            continue
        place = 64 * word
        asked = left & ~closed[word]
        left &= closed[word]
        while left != ZERO:
            out[filled] = owners[place + np.int64(trailing_zeros(left))]
            filled += 1
            left &= left - ONE
        while asked != ZERO:
            candidates[found] = place + np.int64(trailing_zeros(asked))
            found += 1
            asked &= asked - ONE
    for candidate in range(found):
        clause = candidates[candidate]
        if candidate + AHEAD < found:
            prefetch(words, np.int64(starts[candidates[candidate + AHEAD]]))
        out[filled] = owners[clause]
        filled += row_holds(np.int64(starts[clause]), False, words, codes)
    return filled


@compiled
def match_states_event(column, code, bits, words, scratch):
    """Owners of the clauses that one event matches. `words`: the rows of the clauses' tests. Structs come as plain tuples
    (kernels/pivot/pivot_lists.py)."""
    bits, (codes, candidates, alive, spare) = StateTables(*bits), scratch
    for cell in range(len(column)):
        codes[column[cell]] = code[cell]
    out = np.empty(_and_states(bits, codes, alive, spare) + 1, np.int64)
    filled = _append_owners(bits, words, codes, alive, candidates, out, 0)
    for cell in range(len(column)):
        codes[column[cell]] = 0
    return out[:filled]


@compiled
def match_states(cells, first_event, bits, words, scratch, out_offsets, out):
    """The same for events one after the other, from `first_event` on, behind what is in `out` for those before. If there is no room in
    `out`, it is replaced. Returns it."""
    offsets, column, code = cells
    bits, (codes, candidates, alive, spare) = StateTables(*bits), scratch
    filled = out_offsets[first_event]
    for event in range(first_event, len(offsets) - 1):
        for cell in range(offsets[event], offsets[event + 1]):
            codes[column[cell]] = code[cell]
        room = filled + _and_states(bits, codes, alive, spare) + 1
        if room > len(out):
            grown = np.empty(max(2 * len(out), room), np.int64)
            grown[:filled] = out[:filled]
            out = grown
        filled = _append_owners(bits, words, codes, alive, candidates, out, filled)
        for cell in range(offsets[event], offsets[event + 1]):
            codes[column[cell]] = 0
        out_offsets[event + 1] = filled
    return out
