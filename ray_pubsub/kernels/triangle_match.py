"""GEM's matching (sections II.D to II.G): columns one after the other, the most selective first, over a shrinking set of clauses.

For each block of clauses:
    1. The set starts as the clauses whose lead column the event carries.
    2. Partitioning (Algorithms 1 and 5), while it pays (Algorithm 4): the set is ANDed with a bit set of whole cells near the event's
       value, then what lies between is corrected. Only predicates in the value's own row and column of cells are compared:

           row i, left of the diagonal (A')      the high may be before the value         (Theorem 2)
           column i, above the diagonal (B')     the low may be behind it                 (Theorem 1)
           the cell on the diagonal (D)          both

       Algorithm 1 prints the two theorems the other way round.
    3. Selection (Algorithm 2): each clause left is compared, test by test.
"""

from __future__ import annotations

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from ray_pubsub.kernels.compiled import compiled, inlined
from ray_pubsub.kernels.intrinsics import prefetch
from ray_pubsub.kernels.triangle_cells import FULL, by_columns, by_rows, cell_index

__all__ = ["gather_events", "match_triangles", "partition", "partitioning_pays", "sort_by_rate"]

ZERO, ONE, ALL_ONES = np.uint64(0), np.uint64(1), ~np.uint64(0)
AHEAD = 8
WORD_COST = 0.25  # of ANDing a word, in predicates
SELECTION_COST = 20.0  # of comparing a clause left, in predicates


@compiled
def sort_by_rate(rates, order, count):
    """Observation 3 of section II.F: columns in ascending order of their matching rate."""
    for item in range(count):
        place = item
        while place > 0 and rates[order[place - 1]] > rates[item]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = item


@compiled
def partitioning_pays(left, cost):
    """Algorithm 4, line 07: `left` is the cost of selection, that is, of all clauses still in the set."""
    return left > cost


@inlined
def _put(new, old, clause, keep):
    word, bit = np.uint64(clause) >> np.uint64(6), ONE << (np.uint64(clause) & np.uint64(63))
    new[word] = (new[word] & ~bit) | (old[word] & bit & (ALL_ONES if keep else ZERO))


@inlined
def _add(new, old, number, first, last):
    for place in range(first, last):
        _put(new, old, number[place], True)


@inlined
def _drop(new, number, first, last):
    for place in range(first, last):
        word = np.uint64(number[place]) >> np.uint64(6)
        new[word] &= ~(ONE << (np.uint64(number[place]) & np.uint64(63)))


@inlined
def _replay(here, cells, edge, old, new, first_cell, row_cells, row_number, column_cells, column_number):
    """Algorithm 5 for the whole cells between an edge and the value's cell: what has ended is dropped, what has begun is added."""
    for row in range(edge, here):
        base = first_cell + by_rows(row, 0)
        _drop(new, row_number, row_cells[base], row_cells[base + edge])
    for column in range(edge, here):
        base = first_cell + by_columns(column, column, cells) - column
        _add(new, old, column_number, column_cells[base + here + 1], column_cells[base + cells])
    for row in range(here + 1, edge):
        base = first_cell + by_rows(row, 0)
        _add(new, old, row_number, row_cells[base], row_cells[base + here])
    for column in range(here + 1, edge):
        base = first_cell + by_columns(column, column, cells) - column
        _drop(new, column_number, column_cells[base + edge], column_cells[base + cells])


@compiled
def partition(
    code, here, cells, edge, start, old, new, first_cell, row_cells, row_number, high, column_cells, column_number, low
):
    """new = old without the clauses whose test of the column fails for `code`, which lies in cell `here` of the diagonal.

    `start`: the bit set of cells at `edge`, or anything if the edge is FULL."""
    if edge == FULL:
        new[:] = old
        _drop(new, row_number, row_cells[first_cell], row_cells[first_cell + by_rows(here, 0)])  # area A
        if here + 1 < cells:  # area B
            base = first_cell + by_columns(here + 1, here + 1, cells)
            last = column_cells[first_cell + by_rows(cells, 0)]
            _drop(new, column_number, column_cells[base], last)
    else:
        for word in range(len(old)):
            new[word] = old[word] & start[word]
        _replay(here, cells, edge, old, new, first_cell, row_cells, row_number, column_cells, column_number)
    base = first_cell + by_rows(here, 0)
    for place in range(row_cells[base], row_cells[base + here + 1]):  # A' and D
        _put(new, old, row_number[place], high[place] >= code)
    base = first_cell + by_columns(here, here, cells)
    for place in range(column_cells[base], column_cells[base + 1]):  # D
        if low[place] > code:
            _drop(new, column_number, place, place + 1)
    for place in range(column_cells[base + 1], column_cells[base + cells - here]):  # B'
        _put(new, old, column_number[place], low[place] <= code)


@inlined
def _count(bits):
    found = np.int64(0)
    for word in range(len(bits)):
        left = bits[word]
        left -= (left >> ONE) & np.uint64(0x5555555555555555)
        left = (left & np.uint64(0x3333333333333333)) + ((left >> np.uint64(2)) & np.uint64(0x3333333333333333))
        left = (left + (left >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
        found += np.int64((left * np.uint64(0x0101010101010101)) >> np.uint64(56))
    return found


@inlined
def _set_run(bits, first, last):
    for word in range(first >> 6, (last + 63) >> 6):
        mask = ALL_ONES
        if word == first >> 6:
            mask &= ALL_ONES << np.uint64(first & 63)
        if word == last >> 6:
            mask &= ~(ALL_ONES << np.uint64(last & 63))
        bits[word] |= mask


@compiled
def _start(block_first, block_last, present, run_first, run_last, lead_runs, lead_of_run, bits):
    """The clauses of a block whose lead the event carries; returns how many."""
    bits[:] = ZERO
    count = 0
    for run in range(run_first, run_last):
        if present[lead_of_run[run]]:
            first, last = max(lead_runs[run], block_first), min(lead_runs[run + 1], block_last)
            _set_run(bits, first - block_first, last - block_first)
            count += last - first
    return count


@compiled
def _select(
    bits, block_first, values, order, test_offsets, test_column, test_low, test_high, complete, candidates, out, filled
):
    """Writes the numbers of the clauses left whose tests hold. `complete`: all of their tests have been partitioned."""
    found = 0
    for word in range(len(bits)):
        left = bits[word]
        while left != ZERO:
            candidates[found] = order[block_first + word * 64 + np.int64(trailing_zeros(left))]
            found += 1
            left &= left - ONE
    for place in range(found):
        clause = candidates[place]
        holds = True
        if not complete:
            ahead = test_offsets[candidates[min(place + AHEAD, found - 1)]]
            prefetch(test_column, ahead)
            prefetch(test_low, ahead)
            prefetch(test_high, ahead)
            for test in range(test_offsets[clause], test_offsets[clause + 1]):
                code = values[test_column[test]]
                if (code < test_low[test]) | (code > test_high[test]):
                    holds = False
                    break
        out[filled] = clause
        filled += holds
    return filled


@compiled
def match_triangles(
    first_step, first_event, events, event_offsets, event_column, event_code, block, order,
    test_offsets, test_column, test_low, test_high, lead_runs, lead_of_run, block_runs,
    block_triangles, is_covered, columns, widths, cells, first_cell, row_cells, row_number, high, column_cells, column_number, low,
    first_set, bit_sets, first_row, start_set, start_edge, matched, cost,
    values, present, old, new, candidates, rates, turn, ends, out,
):  # fmt: skip
    """Numbers of the matching clauses, block by block and for each block event by event: a block's bit sets then stay in the cache. Step
    s is block s // events and event first_event + s % events; its numbers are out[ends[s]:ends[s + 1]]. Starts with `first_step`; returns
    the first step that may no longer fit `out`, how often a column was partitioned, and how often that began at a cache.

    `values` and `present` are zero (but for the last of `present`, the lead of clauses that need none), and are left so."""
    count = len(order)
    steps = (len(block_triangles) - 1) * events
    taken, cached = 0, 0
    for step in range(first_step, steps):
        part, event = step // events, first_event + step % events
        first, last = part * block, min(count, (part + 1) * block)
        filled = ends[step]
        if filled + last - first + 1 > len(out):
            return step, taken, cached
        for cell in range(event_offsets[event], event_offsets[event + 1]):
            values[event_column[cell]] = event_code[cell]
            present[event_column[cell]] = event_code[cell] > 0
        words = (last - first + 63) >> 6
        old_bits, new_bits = old[:words], new[:words]
        left = _start(first, last, present, block_runs[part, 0], block_runs[part, 1], lead_runs, lead_of_run, old_bits)
        base = block_triangles[part]
        dimensions = block_triangles[part + 1] - base if left > 0 else 0
        for dimension in range(dimensions):
            triangle = base + dimension
            here = cell_index(values[columns[triangle]], widths[triangle])
            rates[dimension] = matched[first_row[triangle] + here] / (last - first)
        sort_by_rate(rates, turn, dimensions)
        done = 0
        while done < dimensions and left > 0:  # Algorithm 3, line 04: nothing left
            triangle = base + turn[done]
            code = values[columns[triangle]]
            here = cell_index(code, widths[triangle])
            row = first_row[triangle] + here
            # Selection goes once over what is left, whatever the number of columns: partitioning spares it 1 - rate of that.
            saved = left * (1 - rates[turn[done]]) * SELECTION_COST
            if not partitioning_pays(saved, cost[row] + WORD_COST * words):
                break
            start = first_set[triangle] + start_set[row] * words
            partition(
                code, here, cells[triangle], start_edge[row], bit_sets[start : start + words], old_bits, new_bits,
                first_cell[triangle], row_cells, row_number, high, column_cells, column_number, low,
            )  # fmt: skip
            old_bits, new_bits = new_bits, old_bits
            taken += 1
            cached += 0 < start_edge[row] < cells[triangle]  # at its ends, and where it is FULL, a bit set says nothing
            done += 1
            left = _count(old_bits)
        if left > 0:
            complete = done == dimensions and is_covered[part]
            filled = _select(
                old_bits, first, values, order, test_offsets, test_column, test_low, test_high, complete,
                candidates, out, filled,
            )  # fmt: skip
        for cell in range(event_offsets[event], event_offsets[event + 1]):
            values[event_column[cell]] = 0
            present[event_column[cell]] = 0
        ends[step + 1] = filled
    return steps, taken, cached


@compiled
def gather_events(events, ends, numbers, offsets, out):
    """The numbers of `match_triangles` event by event; `offsets` comes with the first in place."""
    filled = 0
    for event in range(events):
        for step in range(event, len(ends) - 1, events):
            for place in range(ends[step], ends[step + 1]):
                out[filled] = numbers[place]
                filled += 1
        offsets[event + 1] = offsets[0] + filled
