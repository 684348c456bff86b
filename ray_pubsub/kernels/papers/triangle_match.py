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

from typing import Any, NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from ray_pubsub.kernels.compiled import compiled, inlined
from ray_pubsub.kernels.intrinsics import prefetch
from ray_pubsub.kernels.papers.gap_toggles import exclude_gaps
from ray_pubsub.kernels.papers.triangle_cells import FULL, Shape, by_columns, by_rows, cell_index

__all__ = [
    "Leads", "Part", "Scratch", "TriangleIndex", "gather_events", "match_triangles", "partition", "partitioning_pays",
    "published_edge", "sort_by_rate",
]  # fmt: skip

ZERO, ONE, ALL_ONES = np.uint64(0), np.uint64(1), ~np.uint64(0)
AHEAD = 8
WORD_COST = 0.25  # of ANDing a word, in predicates
SELECTION_COST = 20.0  # of comparing a clause left, in predicates


class Leads(NamedTuple):
    """Run r of positions, runs[r] … runs[r + 1] - 1, is of clauses that need column column[r]; block b has the runs of_block[b, 0] …
    of_block[b, 1] - 1, the first and the last perhaps in part."""

    runs: Any
    column: Any
    of_block: Any


class TriangleIndex(NamedTuple):
    """GEM's whole index. `order`: position → clause; a block is `block` positions. is_covered[b]: every test of block b is in a triangle.
    `predicates` are in both orders. `paper_costs`: Algorithm 4 decides by the paper's costs, and caches serve the first column only.
    `gaps`: GapToggles."""

    order: Any
    block: Any
    leads: Any
    is_covered: Any
    triangles: Any
    predicates: Any
    bit_sets: Any
    plan: Any
    paper_costs: Any
    gaps: Any


class Part(NamedTuple):
    """The events that go through the blocks together, `first_event` and those after it, and the step to begin with."""

    first_event: Any
    events: Any
    first_step: Any


class Scratch(NamedTuple):
    """`values` and `present`, per column, are zero between calls, but for the last of `present`, the lead of clauses that need none. `old`
    and `new` have a bit, `candidates` a number for each clause of a block; `rates` and `turn` are per triangle of a block."""

    values: Any
    present: Any
    old: Any
    new: Any
    candidates: Any
    rates: Any
    turn: Any


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


@compiled
def published_edge(edge, done, cells):
    """Returns where partitioning begins in the paper: at a cache for the first column (section II.G), else with all clauses (Algorithm
    1)."""
    return edge if done == 0 and 0 < edge < cells else FULL


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
def _replay(here, cells, edge, old, new, first_cell, rows, columns):
    """Algorithm 5 for the whole cells between an edge and the value's cell: what has ended is dropped, what has begun is added."""
    for row in range(edge, here):
        base = first_cell + by_rows(row, 0)
        _drop(new, rows.number, rows.starts[base], rows.starts[base + edge])
    for column in range(edge, here):
        base = first_cell + by_columns(column, column, cells) - column
        _add(new, old, columns.number, columns.starts[base + here + 1], columns.starts[base + cells])
    for row in range(here + 1, edge):
        base = first_cell + by_rows(row, 0)
        _add(new, old, rows.number, rows.starts[base], rows.starts[base + here])
    for column in range(here + 1, edge):
        base = first_cell + by_columns(column, column, cells) - column
        _drop(new, columns.number, columns.starts[base + edge], columns.starts[base + cells])


@compiled
def partition(predicates, shape, code, edge, start, old, new):
    """new = old without the clauses whose test of the triangle's column fails for `code`.

    `start`: the bit set of cells at `edge`, or anything if the edge is FULL."""
    rows, columns = predicates
    cells, width, first_cell = shape
    here = cell_index(code, width)  # the value's cell of the diagonal
    if edge == FULL:
        new[:] = old
        _drop(new, rows.number, rows.starts[first_cell], rows.starts[first_cell + by_rows(here, 0)])  # area A
        if here + 1 < cells:  # area B
            base = first_cell + by_columns(here + 1, here + 1, cells)
            last = columns.starts[first_cell + by_rows(cells, 0)]
            _drop(new, columns.number, columns.starts[base], last)
    else:
        for word in range(len(old)):
            new[word] = old[word] & start[word]
        _replay(here, cells, edge, old, new, first_cell, rows, columns)
    base = first_cell + by_rows(here, 0)
    for place in range(rows.starts[base], rows.starts[base + here + 1]):  # A' and D
        _put(new, old, rows.number[place], rows.bound[place] >= code)
    base = first_cell + by_columns(here, here, cells)
    for place in range(columns.starts[base], columns.starts[base + 1]):  # D
        if columns.bound[place] > code:
            _drop(new, columns.number, place, place + 1)
    for place in range(columns.starts[base + 1], columns.starts[base + cells - here]):  # B'
        _put(new, old, columns.number[place], columns.bound[place] <= code)


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
def _start(leads, part, first, last, present, bits):
    """Of block `part`, the positions first … last - 1, the clauses whose lead the event carries; returns how many."""
    bits[:] = ZERO
    count = 0
    for run in range(leads.of_block[part, 0], leads.of_block[part, 1]):
        if present[leads.column[run]]:
            begin, end = max(leads.runs[run], first), min(leads.runs[run + 1], last)
            _set_run(bits, begin - first, end - first)
            count += end - begin
    return count


@compiled
def _select(bits, order, values, tests, complete, candidates, out, filled):
    """Writes the numbers of the clauses left whose tests hold. `complete`: all of their tests have been partitioned."""
    found = 0
    for word in range(len(bits)):
        left = bits[word]
        while left != ZERO:
            candidates[found] = order[word * 64 + np.int64(trailing_zeros(left))]
            found += 1
            left &= left - ONE
    for place in range(found):
        clause = candidates[place]
        holds = True
        if not complete:
            ahead = tests.offsets[candidates[min(place + AHEAD, found - 1)]]
            prefetch(tests.column, ahead)
            prefetch(tests.low, ahead)
            prefetch(tests.high, ahead)
            for test in range(tests.offsets[clause], tests.offsets[clause + 1]):
                code = values[tests.column[test]]
                if (code < tests.low[test]) | (code > tests.high[test]):
                    holds = False
                    break
        out[filled] = clause
        filled += holds
    return filled


@compiled
def match_triangles(index, tests, events, part_of_batch, scratch, ends, out):
    """Numbers of the matching clauses, block by block and for each block event by event: a block's bit sets then stay in the cache. Step
    s is block s // events and event first_event + s % events; its numbers are out[ends[s]:ends[s + 1]]. Starts with the first step;
    returns the first step that may no longer fit `out`, how often a column was partitioned, and how often that began at a cache."""
    order, block, leads, is_covered, triangles, predicates, bit_sets, plan, paper_costs, gaps = index
    values, present, old, new, candidates, rates, turn = scratch
    first_event, size, first_step = part_of_batch
    steps = (len(triangles.of_block) - 1) * size
    taken, cached = 0, 0
    for step in range(first_step, steps):
        part, event = step // size, first_event + step % size
        first, last = part * block, min(len(order), (part + 1) * block)
        filled = ends[step]
        if filled + last - first + 1 > len(out):
            return step, taken, cached
        for cell in range(events.offsets[event], events.offsets[event + 1]):
            values[events.column[cell]] = events.code[cell]
            present[events.column[cell]] = events.code[cell] > 0
        words = (last - first + 63) >> 6
        old_bits, new_bits = old[:words], new[:words]
        left = _start(leads, part, first, last, present, old_bits)
        if left > 0 and exclude_gaps(gaps, values, part, words, new_bits, old_bits):
            left = _count(old_bits)
        base = triangles.of_block[part]
        dimensions = triangles.of_block[part + 1] - base if left > 0 else 0
        for dimension in range(dimensions):
            triangle = base + dimension
            here = cell_index(values[triangles.column[triangle]], triangles.widths[triangle])
            rates[dimension] = plan.matched[triangles.first_row[triangle] + here] / (last - first)
        sort_by_rate(rates, turn, dimensions)
        done, expected = 0, 1.0
        while done < dimensions and left > 0:  # Algorithm 3, line 04: nothing left
            triangle = base + turn[done]
            code = values[triangles.column[triangle]]
            row = triangles.first_row[triangle] + cell_index(code, triangles.widths[triangle])
            rate, edge = rates[turn[done]], plan.start_edge[row]
            if paper_costs:
                if done > 0 and not partitioning_pays(expected, 1 - rate):
                    break
                edge = published_edge(edge, done, triangles.cells[triangle])
                expected *= rate
            # Selection goes once over what is left, whatever the number of columns: partitioning spares it 1 - rate of that.
            elif not partitioning_pays(left * (1 - rate) * SELECTION_COST, plan.cost[row] + WORD_COST * words):
                break
            start = triangles.first_set[triangle] + plan.start_set[row] * words
            shape = Shape(triangles.cells[triangle], triangles.widths[triangle], triangles.first_cell[triangle])
            partition(predicates, shape, code, edge, bit_sets[start : start + words], old_bits, new_bits)
            old_bits, new_bits = new_bits, old_bits
            taken += 1
            cached += 0 < edge < triangles.cells[triangle]  # at its ends, and where it is FULL, a bit set says nothing
            done += 1
            left = _count(old_bits)
        if left > 0:
            complete = done == dimensions and is_covered[part]
            filled = _select(old_bits, order[first:last], values, tests, complete, candidates, out, filled)
        for cell in range(events.offsets[event], events.offsets[event + 1]):
            values[events.column[cell]] = 0
            present[events.column[cell]] = 0
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
