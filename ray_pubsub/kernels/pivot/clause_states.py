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

from ray_pubsub.kernels.compiled import compiled
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
    "order_tests",
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


@compiled
def order_tests(offsets, column, covered, ends, order, clauses, first, closed):
    """Sorts tests by column, each with its clause: those on column n end at ends[n], which is given as where they begin. Leaves in first[n]
    the clauses that have none, and notes which clauses are closed. `offsets`, `column`: the tests of the clauses; `covered`: column → its
    number among those that have states, or -1.

    The kernels below take column after column, because the places of one fit the cache and those of all do not."""
    tested = np.full(len(ends), -1, np.int64)
    for clause in range(len(offsets) - 1):
        word, bit = clause >> 6, ONE << np.uint64(clause & 63)
        closed[word] |= bit
        for test in range(offsets[clause], offsets[clause + 1]):
            number = covered[column[test]]
            if number < 0 or tested[number] == clause:  # a state has one test of a clause
                closed[word] &= ~bit
                continue
            tested[number] = clause
            first[number, word] &= ~bit
            order[ends[number]], clauses[ends[number]] = test, clause
            ends[number] += 1


@compiled
def count_changes(low, high, clauses, top, changes, first):
    """Counts the changes of a column into changes[code + 1], and adds to `first` the clauses at its first code. `low`, `high`, `clauses`:
    the intervals of its tests."""
    for each in range(len(low)):
        if low[each] > high[each]:
            continue
        if low[each] == 0:
            clause = np.int64(clauses[each])
            first[clause >> 6] |= ONE << np.uint64(clause & 63)
        else:
            changes[low[each] + 1] += 1
        if high[each] < top:
            changes[high[each] + 2] += 1


@compiled
def fill_changes(low, high, clauses, top, behind, ids):
    """Lists the changes of a column. `behind`: code → where its changes begin in `ids`, which is moved behind them."""
    for each in range(len(low)):
        if low[each] > high[each]:
            continue
        if low[each] > 0:
            ids[behind[low[each]]] = clauses[each]
            behind[low[each]] += 1
        if high[each] < top:
            ids[behind[high[each] + 1]] = clauses[each]
            behind[high[each] + 1] += 1


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
