"""Finds the shapes near places: the bounding boxes of the shapes are stored in the cells of grids, whose shapes are candidates.

Boxes of similar size share a grid, with cells a fourth as long as its largest box, so that a box touches 25 cells at most. One grid for all
sizes was tried: beside many small circles, the cells of a single large one exhausted the memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.computed.place_shapes import PlaceShapes, circle_of
from ray_pubsub.language.functions.places import Shape, box_of, boxes_of_circles

__all__ = ["PlaceGrids"]

LEAST_STEP, MOST_STEP = 0.02, 90.0
"""Degrees."""
RATIO = 4
"""How much larger the cells of a grid are than those of the grid before it."""


class PlaceGrids:
    """A grid for each class of sizes among the shapes. Immutable."""

    def __init__(self, shapes: list[Shape], numbers: list[int]) -> None:
        self.count = len(shapes)
        boxes = _boxes(shapes)
        width = boxes[:, 3] - boxes[:, 2]
        high, wide = _sizes(boxes[:, 1] - boxes[:, 0]), _sizes(np.where(width >= 0, width, width + 360))
        # A small circle near a pole is wide in degrees. Cells are as long as they are wide for all others, so that there are few grids.
        similar = np.abs(high - wide) <= 1
        largest = np.maximum(high, wide)
        sizes = np.stack([np.where(similar, largest, high), np.where(similar, largest, wide)], axis=1)
        found, grid = np.unique(sizes, axis=0, return_inverse=True)
        self._grids = []
        for number, steps in enumerate(np.minimum(LEAST_STEP * float(RATIO) ** found, MOST_STEP).tolist()):
            mine = np.flatnonzero(grid.reshape(-1) == number)
            own = [shapes[place] for place in mine.tolist()], [numbers[place] for place in mine.tolist()]
            self._grids.append(_Grid(*own, boxes[mine], *steps))

    @property
    def cells(self) -> int:
        """Returns how many entries the cells of all grids have together."""
        return sum(grid.cells for grid in self._grids)

    def around(
        self, north: NDArray[np.float64], east: NDArray[np.float64]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Returns pairs of a place and the flag of a shape that contains it."""
        for grid in self._grids:
            yield from grid.around(north, east)


def _sizes(degrees: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns the class of each length: the cells of class n are LEAST_STEP * RATIO**n long, at least a fourth of the length."""
    steps = np.maximum(degrees / RATIO, LEAST_STEP) / LEAST_STEP
    found: NDArray[np.int64] = np.ceil(np.log(steps) / np.log(RATIO) - 1e-9).astype(np.int64)
    return found


class _Grid:
    """Cells of equal size, in degrees, each of which lists the shapes whose boxes touch it. Immutable."""

    def __init__(
        self, shapes: list[Shape], numbers: list[int], boxes: NDArray[np.float64], height: float, width: float
    ) -> None:
        self._height, self._width = height, width
        self._columns = int(np.ceil(360 / width))
        # Sorting keeps neighbours on the globe close together in memory.
        order = np.lexsort((boxes[:, 2], self._line(boxes[:, 0])))
        boxes = boxes[order]
        by_place = order.tolist()
        self._shapes = PlaceShapes([shapes[place] for place in by_place], [numbers[place] for place in by_place])
        south, north = self._line(boxes[:, 0]), self._line(boxes[:, 1])
        west = self._column(boxes[:, 2])
        wide = np.minimum(
            self._column(boxes[:, 3]) - west + self._columns * (boxes[:, 3] < boxes[:, 2]) + 1, self._columns
        )
        high = north - south + 1
        cells = high * wide
        which = np.repeat(np.arange(len(shapes), dtype=np.int32), cells)
        nth = np.arange(int(cells.sum())) - np.repeat(np.cumsum(cells) - cells, cells)
        line = south[which] + nth // wide[which]
        cell = line * self._columns + (west[which] + nth % wide[which]) % self._columns
        by_cell = np.argsort(cell, kind="stable")
        self._entries = which[by_cell]
        self._cells, first = np.unique(cell[by_cell], return_index=True)
        self._first = np.append(first, len(by_cell))

    @property
    def cells(self) -> int:
        """Returns how many entries the cells have together."""
        return len(self._entries)

    def _line(self, latitude: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.floor((np.clip(latitude, -90, 90) + 90) / self._height).astype(np.int64)

    def _column(self, longitude: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.minimum(np.floor((longitude + 180) / self._width).astype(np.int64), self._columns - 1)

    def around(
        self, north: NDArray[np.float64], east: NDArray[np.float64]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Returns pairs of a place and the flag of a shape that contains it."""
        first, last = self._runs(north, east)
        edge = np.flatnonzero(np.abs(east) == 180)
        if not len(edge):
            yield from self._shapes.inside(north, east, first, last, self._entries)
            return
        # 180 degrees east is 180 degrees west: such a place gets the shapes of both cells, each once.
        last[edge] = first[edge]
        yield from self._shapes.inside(north, east, first, last, self._entries)
        for place in edge.tolist():
            here = slice(place, place + 1)
            runs = zip(*self._runs(north[[place, place]], np.array([-180.0, 180.0])), strict=True)
            entries = np.unique(np.concatenate([self._entries[begin:end] for begin, end in runs]))
            for _, numbers in self._shapes.inside(
                north[here], east[here], np.array([0]), np.array([len(entries)]), entries
            ):
                yield np.full(len(numbers), place), numbers

    def _runs(
        self, north: NDArray[np.float64], east: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns where the shapes of each place's cell begin and end."""
        cell = self._line(north) * self._columns + self._column(east)
        found = np.minimum(np.searchsorted(self._cells, cell), len(self._cells) - 1)
        first = self._first[found]
        return first, np.where(self._cells[found] == cell, self._first[found + 1], first)


def _boxes(shapes: list[Shape]) -> NDArray[np.float64]:
    """Returns the bounding box of each shape."""
    circles = np.array([circle_of(shape) for shape in shapes], np.float64)
    boxes = boxes_of_circles(circles)
    for place in np.flatnonzero(np.isnan(circles[:, 2])).tolist():
        boxes[place] = box_of(shapes[place])
    return boxes
