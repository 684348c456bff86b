"""Sorts cells (row, column, code) by row."""

from __future__ import annotations

from ray_pubsub.kernels.compiled import compiled

__all__ = ["order_by_row", "pattern_cells"]


@compiled
def order_by_row(lanes, more, offsets, column, code):
    """Counting sort. `lanes` is a plain tuple of columns, offsets, rows and codes: the cells from one offset to the next are of one
    column; -1: they are left out. `more` are cells with a column each: rows, columns, codes. `offsets` (one per row and one more) comes
    zeroed; returns the number of cells."""
    lane_column, lane_offsets, rows, codes = lanes
    more_rows, more_column, more_code = more
    for lane in range(len(lane_column)):
        if lane_column[lane] >= 0:
            for place in range(lane_offsets[lane], lane_offsets[lane + 1]):
                offsets[rows[place] + 1] += 1
    for place in range(len(more_rows)):
        offsets[more_rows[place] + 1] += 1
    for row in range(len(offsets) - 1):
        offsets[row + 1] += offsets[row]
    for lane in range(len(lane_column)):
        if lane_column[lane] >= 0:
            for place in range(lane_offsets[lane], lane_offsets[lane + 1]):
                target = offsets[rows[place]]
                column[target] = lane_column[lane]
                code[target] = codes[place]
                offsets[rows[place]] = target + 1
    for place in range(len(more_rows)):
        target = offsets[more_rows[place]]
        column[target] = more_column[place]
        code[target] = more_code[place]
        offsets[more_rows[place]] = target + 1
    for row in range(len(offsets) - 1, 0, -1):
        offsets[row] = offsets[row - 1]
    offsets[0] = 0
    return offsets[len(offsets) - 1]


@compiled
def pattern_cells(rows, string, offsets, cells, out):
    """The row rows[i] gets the cells of string[i], which are offsets[s]:offsets[s + 1] of `cells`, columns and codes. `out` (rows,
    columns, codes) has room for all."""
    column, code = cells
    out_rows, out_column, out_code = out
    filled = 0
    for place in range(len(rows)):
        for cell in range(offsets[string[place]], offsets[string[place] + 1]):
            out_rows[filled] = rows[place]
            out_column[filled], out_code[filled] = column[cell], code[cell]
            filled += 1
