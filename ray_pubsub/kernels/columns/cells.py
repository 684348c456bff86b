"""Cells (row, column, code) put into the order of their rows."""

from __future__ import annotations

from ray_pubsub.kernels.compiled import compiled

__all__ = ["order_by_row"]


@compiled
def order_by_row(lane_column, lane_offsets, rows, codes, offsets, column, code):
    """Counting sort. `offsets` (one per row and one more) comes zeroed; cells of lanes with column -1 are left out."""
    for lane in range(len(lane_column)):
        if lane_column[lane] >= 0:
            for place in range(lane_offsets[lane], lane_offsets[lane + 1]):
                offsets[rows[place] + 1] += 1
    for row in range(len(offsets) - 1):
        offsets[row + 1] += offsets[row]
    for lane in range(len(lane_column)):
        if lane_column[lane] >= 0:
            for place in range(lane_offsets[lane], lane_offsets[lane + 1]):
                target = offsets[rows[place]]
                column[target] = lane_column[lane]
                code[target] = codes[place]
                offsets[rows[place]] = target + 1
    for row in range(len(offsets) - 1, 0, -1):
        offsets[row] = offsets[row - 1]
    offsets[0] = 0
    return offsets[len(offsets) - 1]
