"""Counts how many rules cover each cell, per vector and level. The counts show which cells a change covers for the first time, and which
it uncovers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.priority.boxes import add_corners, count_all_cells, count_cell_by_cell
from ray_pubsub.priority.instantiation.boxes import Boxes, BoxList
from ray_pubsub.priority.instantiation.vectors import Vector

__all__ = ["Cover"]

CELL_BY_CELL = 4
"""If the boxes together have more than this many times the vector's cells, they are counted by a difference array."""
Cells = list[tuple[int, int, NDArray[np.int64]]]
"""Vector, level, cells."""


class Cover:
    """Boxes, and for each vector and level the number of boxes on each cell."""

    def __init__(self, vectors: list[Vector], dtype: Any) -> None:
        """`vectors` may grow. A count that has reached the maximum of `dtype` stays there."""
        self._vectors = vectors
        self._dtype = dtype
        self._full = int(np.iinfo(dtype).max)
        self.counts: dict[tuple[int, int], NDArray[Any]] = {}
        self.boxes: list[BoxList] = []

    def add(self, number: int, boxes: Boxes, level_of: NDArray[np.uint8]) -> Cells:
        """Counts boxes of one vector; returns the cells that no box covered before."""
        while len(self.boxes) <= number:
            self.boxes.append(BoxList(len(self._vectors[len(self.boxes)].columns)))
        self.boxes[number].append(boxes)
        return self._counted(number, boxes, level_of, +1)

    def remove(self, numbers: list[int], level_of: NDArray[np.uint8]) -> Cells:
        """Removes the boxes of rules; returns the cells that no box covers any more."""
        chosen = np.unique(np.array(numbers, dtype=np.int64))
        found: Cells = []
        for number, boxes in enumerate(self.boxes):
            found += self._counted(number, boxes.of(chosen), level_of, -1)
        return found

    def _counted(self, number: int, boxes: Boxes, level_of: NDArray[np.uint8], step: int) -> Cells:
        """Counts boxes of one vector up or down; returns the cells that became covered or uncovered."""
        vector = self._vectors[number]
        found: Cells = []
        levels = level_of[boxes.owners]
        for level in np.unique(levels).tolist():
            part = boxes.where(levels == level)
            counts = self.counts.get((number, level))
            if counts is None:
                counts = np.zeros(vector.cells, dtype=self._dtype)
            cells = part.cells()
            changed = np.empty(min(cells, vector.cells), dtype=np.int64)
            if cells <= CELL_BY_CELL * vector.cells:
                count = count_cell_by_cell(part.lows, part.highs, vector.strides, counts, self._full, step, changed)
            else:
                count = count_all_cells(_united(part, vector), counts, self._full, step, changed)
            self.counts[number, level] = counts  # readers see it from here on
            found.append((number, level, changed[:count]))
        return found

    @property
    def nbytes(self) -> int:
        counts = sum(counts.nbytes for counts in self.counts.values())
        return counts + sum(boxes.nbytes for boxes in self.boxes)


def _united(boxes: Boxes, vector: Vector) -> NDArray[np.int32]:
    """Returns how many of the boxes cover each cell, by a difference array: the corners first, then running sums along every axis."""
    difference = np.zeros(vector.cells, dtype=np.int32)
    add_corners(boxes.lows, boxes.highs, vector.shape, vector.strides, difference)
    cube = difference.reshape(tuple(vector.shape.tolist()))
    for axis in range(cube.ndim):
        np.cumsum(cube, axis=axis, out=cube)
    return difference
