"""How many rules cover each cell of a signature vector: boxes of cells added, removed, and united by a difference array.

A box is, per attribute, a range of bins, both ends included. A count that has reached `full` stays there: it no longer knows how many boxes
it counts, and a cell too many is a false positive where a cell too few is a lost rule.
"""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled

__all__ = [
    "add_boxes",
    "add_corners",
    "boxes_of_pieces",
    "count_boxes",
    "lower_counts",
    "raise_counts",
    "remove_boxes",
]


@compiled
def add_boxes(lows, highs, strides, counts, full, fresh):
    """Counts every cell of every box; `fresh` gets the cells that no box covered before. Returns how many those are."""
    dimensions = len(strides)
    found = 0
    index = np.empty(dimensions, np.int64)
    for box in range(len(lows)):
        cell = 0
        for axis in range(dimensions):
            index[axis] = lows[box, axis]
            cell += index[axis] * strides[axis]
        while True:
            count = np.int64(counts[cell])
            if count == 0:
                fresh[found] = cell
                found += 1
            if count != full:
                counts[cell] = count + 1
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
def remove_boxes(lows, highs, strides, counts, full, bare):
    """Undoes `add_boxes`; `bare` gets the cells that no box covers any more. Returns how many those are."""
    dimensions = len(strides)
    found = 0
    index = np.empty(dimensions, np.int64)
    for box in range(len(lows)):
        cell = 0
        for axis in range(dimensions):
            index[axis] = lows[box, axis]
            cell += index[axis] * strides[axis]
        while True:
            count = np.int64(counts[cell])
            if count != full:
                counts[cell] = count - 1
                if count == 1:
                    bare[found] = cell
                    found += 1
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
def raise_counts(more, counts, full, fresh):
    """counts += more, full counts staying full; `fresh` gets the cells that were 0 and no longer are."""
    found = 0
    for cell in range(len(counts)):
        if more[cell] > 0:
            count = np.int64(counts[cell])
            if count == 0:
                fresh[found] = cell
                found += 1
            counts[cell] = min(count + more[cell], full)
    return found


@compiled
def lower_counts(less, counts, full, bare):
    """counts -= less, full counts staying full; `bare` gets the cells that become 0."""
    found = 0
    for cell in range(len(counts)):
        count = np.int64(counts[cell])
        if less[cell] > 0 and count != full:
            counts[cell] = count - less[cell]
            if count == less[cell]:
                bare[found] = cell
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
