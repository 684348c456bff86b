"""How many rules cover each cell of a signature vector: boxes of cells added, removed, and united by a difference array.

A box is, per attribute, a range of bins, both ends included. A count that has reached `full` stays there: it no longer knows how many boxes
it counts, and a cell too many is a false positive where a cell too few is a lost rule.
"""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled

__all__ = ["add_corners", "boxes_of_pieces", "count_all_cells", "count_boxes", "count_cell_by_cell"]


@compiled
def count_cell_by_cell(lows, highs, strides, counts, full, step, changed):
    """Counts every cell of every box, up (`step` is 1) or down (-1). `changed` gets the cells that are covered now and were not, or the
    other way round. Returns how many those are."""
    dimensions = len(strides)
    edge = np.int64(0 if step > 0 else 1)
    found = 0
    index = np.empty(dimensions, np.int64)
    for box in range(len(lows)):
        cell = 0
        for axis in range(dimensions):
            index[axis] = lows[box, axis]
            cell += index[axis] * strides[axis]
        while True:
            count = np.int64(counts[cell])
            if count == edge:
                changed[found] = cell
                found += 1
            if count != full:
                counts[cell] = count + step
            axis = dimensions - 1
            while axis >= 0 and index[axis] == highs[box, axis]:
                cell -= (index[axis] - lows[box, axis]) * strides[axis]
                index[axis] = lows[box, axis]
                axis -= 1
            if axis < 0:
                break
            index[axis] += 1
            cell += strides[axis]
    return found


@compiled
def add_corners(lows, highs, shape, strides, difference):
    """Each box as its 2^d signed corners; summing along every axis afterwards gives how many boxes cover each cell."""
    dimensions = len(strides)
    for box in range(len(lows)):
        for corner in range(1 << dimensions):
            cell, sign, inside = 0, 1, True
            for axis in range(dimensions):
                if (corner >> axis) & 1:
                    end = highs[box, axis] + 1
                    if end == shape[axis]:
                        inside = False
                        break
                    cell += end * strides[axis]
                    sign = -sign
                else:
                    cell += lows[box, axis] * strides[axis]
            if inside:
                difference[cell] += sign


@compiled
def count_all_cells(boxes, counts, full, step, changed):
    """The same for boxes of which boxes[cell] cover a cell. A full count stays full."""
    found = 0
    for cell in range(len(counts)):
        count = np.int64(counts[cell])
        if boxes[cell] > 0 and count != full:
            after = min(count + step * boxes[cell], full)
            counts[cell] = after
            if (count == 0) != (after == 0):
                changed[found] = cell
                found += 1
    return found


@compiled
def count_boxes(pieces):
    """Clauses to boxes: how many boxes clause i makes. pieces[i, axis] is up to two ranges low, high; low -1 is none."""
    total = 0
    for clause in range(len(pieces)):
        boxes = 1
        for axis in range(pieces.shape[1]):
            boxes *= (pieces[clause, axis, 0] >= 0) + (pieces[clause, axis, 2] >= 0)
        total += boxes
    return total


@compiled
def boxes_of_pieces(pieces, owners, lows, highs, box_owners):
    """The boxes themselves: one per choice of a range on every axis."""
    dimensions = pieces.shape[1]
    filled = 0
    for clause in range(len(pieces)):
        for choice in range(1 << dimensions):
            valid = True
            for axis in range(dimensions):
                if pieces[clause, axis, 2 * ((choice >> axis) & 1)] < 0:
                    valid = False
                    break
            if not valid:
                continue
            for axis in range(dimensions):
                side = 2 * ((choice >> axis) & 1)
                lows[filled, axis] = pieces[clause, axis, side]
                highs[filled, axis] = pieces[clause, axis, side + 1]
            box_owners[filled] = owners[clause]
            filled += 1
