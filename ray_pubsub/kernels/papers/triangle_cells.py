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

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.compiled import compiled, inlined

__all__ = [
    "FULL", "Bounds", "Predicates", "RowPlan", "Shape", "Triangles", "by_columns", "by_rows", "cell_index", "choose_leads",
    "count_tests", "fill_bit_sets", "fill_cells", "plan_rows",
]  # fmt: skip

ONE = np.uint64(1)
FULL = -1
"""Instead of an edge: start from all clauses and take out the ones that do not match (Algorithm 1)."""


class Triangles(NamedTuple):
    """Those of block b are of_block[b] … of_block[b + 1] - 1. Triangle t is of column column[t] and has cells[t] cells in a row, each
    widths[t] codes wide. Its cells are numbered from first_cell[t], its rows from first_row[t]; its bit sets begin at word first_set[t]."""

    of_block: Any
    column: Any
    widths: Any
    cells: Any
    first_cell: Any
    first_row: Any
    first_set: Any


class Shape(NamedTuple):
    """One triangle: its cells in a row, their width in codes, and the number of its first cell."""

    cells: Any
    width: Any
    first_cell: Any


class Bounds(NamedTuple):
    """The predicates in one order: those of a cell are starts[cell] … starts[cell + 1] - 1, each with its clause's number in the block and
    one of its bounds."""

    starts: Any
    number: Any
    bound: Any


class Predicates(NamedTuple):
    """The predicates in both orders: by rows with their highs, by columns with their lows."""

    rows: Any
    columns: Any


class RowPlan(NamedTuple):
    """Per row of a triangle, that is, per cell of its diagonal: the bit set that an event there starts from and that set's edge, how many
    clauses it is expected to match, and what partitioning costs, in predicates."""

    start_set: Any
    start_edge: Any
    matched: Any
    cost: Any


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
def choose_leads(tests, hopeless, tested, leads):
    """Of the columns a clause needs to be present the one that the fewest clauses test (OpIndex formula 1). A clause that needs none gets
    the number behind the columns, a hopeless one the next."""
    columns = len(tested)
    for clause in range(len(leads)):
        lead = columns
        for test in range(tests.offsets[clause], tests.offsets[clause + 1]):
            if tests.low[test] > 0 and (lead == columns or tested[tests.column[test]] < tested[lead]):
                lead = tests.column[test]
        leads[clause] = columns + 1 if hopeless[clause] else lead


@compiled
def count_tests(order, tests, tested):
    """How many of some clauses test each column; `tested` comes zeroed."""
    for position in range(len(order)):
        for test in range(tests.offsets[order[position]], tests.offsets[order[position] + 1]):
            tested[tests.column[test]] += 1


@compiled
def fill_cells(order, block, tests, triangles, in_columns, triangle_of, out):
    """Counting sort of the predicates by triangle and cell, with their lows in the order of columns, else with their highs in that of
    rows. `triangle_of`: -1 per column, left so; `out.starts`: zero."""
    starts = out.starts
    for filling in range(2):
        for part in range(len(triangles.of_block) - 1):
            for triangle in range(triangles.of_block[part], triangles.of_block[part + 1]):
                triangle_of[triangles.column[triangle]] = triangle
            for position in range(part * block, min(len(order), (part + 1) * block)):
                for test in range(tests.offsets[order[position]], tests.offsets[order[position] + 1]):
                    triangle = triangle_of[tests.column[test]]
                    if triangle < 0:
                        continue
                    low, high, width = tests.low[test], tests.high[test], triangles.widths[triangle]
                    left, up = cell_index(low, width), cell_index(high, width)
                    cell = triangles.first_cell[triangle]
                    cell += by_columns(up, left, triangles.cells[triangle]) if in_columns else by_rows(up, left)
                    if filling:
                        # starts[cell + 1] is the start of the cell until its run is full, then its end.
                        target = starts[cell + 1]
                        starts[cell + 1] = target + 1
                        out.number[target] = position - part * block
                        out.bound[target] = low if in_columns else high
                    else:
                        starts[cell + 2] += 1
            for triangle in range(triangles.of_block[part], triangles.of_block[part + 1]):
                triangle_of[triangles.column[triangle]] = -1
        if not filling:
            for cell in range(1, len(starts)):
                starts[cell] += starts[cell - 1]


@compiled
def fill_bit_sets(clauses, cells, edges, rows, first_cell, bits):
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
            for place in range(rows.starts[cell], rows.starts[cell + 1]):
                word, bit = rows.number[place] >> 6, ONE << np.uint64(rows.number[place] & 63)
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
def plan_rows(clauses, predicates, cells, edges, rows, first_cell, plan):
    """The plan of one triangle. Without caches the cheaper of two starts is taken: nothing, adding the side that matches, or everything,
    removing the side that does not."""
    in_row, in_column = np.zeros(cells, np.int64), np.zeros(cells, np.int64)
    for row in range(cells):
        for column in range(row + 1):
            cell = first_cell + by_rows(row, column)
            size = rows.starts[cell + 1] - rows.starts[cell]
            in_row[row] += size
            in_column[column] += size
    begun, ended = 0, 0  # lows before the cell, highs before it
    for here in range(cells):
        inside = begun + in_column[here] // 2 - ended - in_row[here] // 2
        plan.matched[here] = max(0, inside) + clauses - predicates
        begun += in_column[here]
        touched = begun - ended  # all that may match: low not behind the cell, high not before it
        ended += in_row[here]
        # The far end of the diagonal: nothing matches there, as at its beginning.
        nearest, distance = 0, cells - here - 1
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
            # An upper bound: what lies in a row and in a column of the strips counts twice.
            for strip in range(first, last + 1):
                touched += in_row[strip] + in_column[strip]
        plan.start_set[here], plan.start_edge[here] = nearest, edge
        plan.cost[here] = touched
