"""GEM's index (section II.C): a test on a column is the point (low, high), above the diagonal of a triangle that is cut into cells.

Clauses are numbered by position: those that need the same column (their lead) stand together, and blocks of them are cut from that order.
A column that enough of a block's clauses test has a triangle there. Its predicates are stored twice, row by row with their highs and column
by column with their lows, so that every part of Algorithm 1 is a few runs of memory (one order alone: 5.5 µs a partition, not 1.5).

    by rows       row r (the high's cell), then columns 0 … r (the low's cell)
    by columns    column c, then rows c … cells - 1: the cell on the diagonal first
    bit sets      set k: the clauses that do not test the column, and those with low before edge k and high behind it

The cells of all triangles are numbered through; per order, one prefix sum says where each cell's run is.
"""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled, inlined

__all__ = [
    "FULL",
    "by_columns",
    "by_rows",
    "cell_index",
    "choose_leads",
    "count_tests",
    "fill_bit_sets",
    "fill_cells",
    "merge_tests",
    "plan_rows",
]

ONE = np.uint64(1)
FULL = -1
"""Instead of an edge: start from all clauses and take out the ones that do not match (Algorithm 1)."""


@compiled
def cell_index(code, width):
    """Formula 2, with the floor that the text lost. `width` is rounded up, so that the largest code needs no case of its own."""
    return code // width


@inlined
def by_rows(row, column):
    return (row * (row + 1)) // 2 + column


@inlined
def by_columns(row, column, cells):
    return column * cells - (column * (column - 1)) // 2 + row - column


@compiled
def merge_tests(offsets, column, low, high, top, place, hopeless, out_offsets, out_column, out_low, out_high):
    """One test per clause and column: two are intersected, one that admits every code is dropped. `place`: -1 per column.

    A clause with an empty interval is hopeless. It has no point in the triangle, and Theorem 4 as printed would accept it."""
    filled = 0
    for clause in range(len(offsets) - 1):
        first = filled
        for test in range(offsets[clause], offsets[clause + 1]):
            where = column[test]
            if low[test] <= 0 and high[test] >= top[where]:
                continue
            if place[where] >= first:
                known = place[where]
                out_low[known] = max(out_low[known], low[test])
                out_high[known] = min(out_high[known], high[test])
            else:
                place[where] = filled
                out_column[filled], out_low[filled], out_high[filled] = where, low[test], high[test]
                filled += 1
        for test in range(first, filled):
            hopeless[clause] |= out_low[test] > out_high[test]
        out_offsets[clause + 1] = filled
    return filled


@compiled
def choose_leads(offsets, column, low, hopeless, tested, leads):
    """Of the columns a clause needs to be present the one that the fewest clauses test (OpIndex formula 1). A clause that needs none gets
    the number behind the columns, a hopeless one the next."""
    columns = len(tested)
    for clause in range(len(offsets) - 1):
        lead = columns
        for test in range(offsets[clause], offsets[clause + 1]):
            if low[test] > 0 and (lead == columns or tested[column[test]] < tested[lead]):
                lead = column[test]
        leads[clause] = columns + 1 if hopeless[clause] else lead


@compiled
def count_tests(order, offsets, column, tested):
    """How many of some clauses test each column; `tested` comes zeroed."""
    for position in range(len(order)):
        for test in range(offsets[order[position]], offsets[order[position] + 1]):
            tested[column[test]] += 1


@compiled
def fill_cells(
    block, order, offsets, column, low, high, block_triangles, columns, widths, cells, first_cell, in_columns, triangle_of,
    cell_offsets, number, bound,
):  # fmt: skip
    """Counting sort of the predicates by triangle and cell, with their lows in the order of columns, else with their highs in that of
    rows. `triangle_of`: -1 per column, left so; `cell_offsets`: zero."""
    for filling in range(2):
        for part in range(len(block_triangles) - 1):
            for triangle in range(block_triangles[part], block_triangles[part + 1]):
                triangle_of[columns[triangle]] = triangle
            for position in range(part * block, min(len(order), (part + 1) * block)):
                for test in range(offsets[order[position]], offsets[order[position] + 1]):
                    triangle = triangle_of[column[test]]
                    if triangle < 0:
                        continue
                    left, up = cell_index(low[test], widths[triangle]), cell_index(high[test], widths[triangle])
                    cell = first_cell[triangle]
                    cell += by_columns(up, left, cells[triangle]) if in_columns else by_rows(up, left)
                    if filling:
                        # cell_offsets[cell + 1] is the start of the cell until its run is full, then its end.
                        target = cell_offsets[cell + 1]
                        cell_offsets[cell + 1] = target + 1
                        number[target] = position - part * block
                        bound[target] = low[test] if in_columns else high[test]
                    else:
                        cell_offsets[cell + 2] += 1
            for triangle in range(block_triangles[part], block_triangles[part + 1]):
                triangle_of[columns[triangle]] = -1
        if not filling:
            for cell in range(1, len(cell_offsets)):
                cell_offsets[cell] += cell_offsets[cell - 1]


@compiled
def fill_bit_sets(clauses, cells, edges, row_cells, first_cell, number, bits):
    """The bit sets of one triangle, bits[k, word] for edges[k]; edges[0] is 0. Every predicate enters at the first edge behind its low's
    cell and leaves at the first behind its high's cell: two toggles, then a running XOR."""
    sets, words = bits.shape
    behind = np.empty(cells, np.int64)  # cell → the first edge behind it
    edge = 0
    for cell in range(cells):
        while edge < sets and edges[edge] <= cell:
            edge += 1
        behind[cell] = edge
    for clause in range(clauses):
        bits[0, clause >> 6] |= ONE << np.uint64(clause & 63)
    for row in range(cells):
        for column in range(row + 1):
            cell = first_cell + by_rows(row, column)
            for place in range(row_cells[cell], row_cells[cell + 1]):
                word, bit = number[place] >> 6, ONE << np.uint64(number[place] & 63)
                bits[0, word] ^= bit
                if behind[column] < sets:
                    bits[behind[column], word] ^= bit
                if behind[row] < sets:
                    bits[behind[row], word] ^= bit
    # Set 0 is now the clauses without a test of the column, which all the others contain.
    for later in range(1, sets):
        for word in range(words):
            bits[later, word] ^= bits[later - 1, word]


@compiled
def plan_rows(clauses, predicates, cells, edges, row_cells, first_cell, start_set, start_edge, matched, cost):
    """Per cell of the diagonal: from which bit set an event there starts, how many clauses it is expected to match, and what the
    partitioning costs in predicates. Without caches the cheaper of two starts is taken: nothing, adding the side that matches, or
    everything, removing the side that does not."""
    in_row, in_column = np.zeros(cells, np.int64), np.zeros(cells, np.int64)
    for row in range(cells):
        for column in range(row + 1):
            cell = first_cell + by_rows(row, column)
            size = row_cells[cell + 1] - row_cells[cell]
            in_row[row] += size
            in_column[column] += size
    begun, ended = 0, 0  # lows before the cell, highs before it
    for here in range(cells):
        inside = begun + in_column[here] // 2 - ended - in_row[here] // 2
        matched[here] = max(0, inside) + clauses - predicates
        begun += in_column[here]
        touched = begun - ended  # all that may match: low not behind the cell, high not before it
        ended += in_row[here]
        nearest, distance = (
            0,
            cells - here - 1,
        )  # the far end of the diagonal: nothing matches there, as at its beginning
        edge = cells
        for known in range(len(edges)):
            away = here - edges[known] if edges[known] <= here else edges[known] - here - 1
            if away < distance:
                nearest, distance, edge = known, away, edges[known]
        if edge == 0 or edge == cells:
            others = predicates - touched + in_row[here] + in_column[here]
            if others < touched:
                edge, touched = FULL, others
        else:
            first, last = min(here, edge), max(here, edge - 1)
            touched = 0
            for strip in range(
                first, last + 1
            ):  # an upper bound: what lies in a row and in a column of the strips counts twice
                touched += in_row[strip] + in_column[strip]
        start_set[here], start_edge[here] = nearest, edge
        cost[here] = touched
