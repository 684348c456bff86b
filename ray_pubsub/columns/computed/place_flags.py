"""Tests events against circles and polygons, for all subscriptions at once: an event is compared only with the shapes near it.

The bounding boxes of the shapes are stored in the cells of a grid. The shapes in an event's cell are candidates, which are then compared
exactly: circles by a kernel (kernels/computed/places.py); polygons, and circles whose edge is too close for the kernel to decide, by the
specification (language/functions/places.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.computed.places import circles_around
from ray_pubsub.language.functions.places import EARTH, Shape, box_of, boxes_of_circles, contains, is_place
from ray_pubsub.language.tree import Holds
from ray_pubsub.model.event_batch import Lane
from ray_pubsub.model.values import Kind

__all__ = ["PLACES", "PlaceFlags"]

PLACES = {"geo_within", "geo_in_polygon"}
LEAST_STEP, MOST_STEP = 0.02, 30.0
PAIRS_AT_ONCE = 1 << 20
FEW = 64
"""Up to this many shapes are compared with every event instead of being put into the grid."""
HALF_WAY_AROUND = np.pi * EARTH * (1 + 1e-9)
"""In kilometres. No two places are farther apart."""


class PlaceFlags:
    """The flags of shapes on pairs of latitude and longitude. It only grows; one thread adds, others may look up."""

    def __init__(self) -> None:
        self._grids: dict[tuple[str, ...], _Shapes] = {}

    def __bool__(self) -> bool:
        return bool(self._grids)

    @property
    def names(self) -> set[str]:
        """Returns the names of the latitude and longitude attributes."""
        return {name for names in list(self._grids) for name in names}

    def add(self, number: int, leaf: Holds) -> None:
        """Adds a flag."""
        shapes = self._grids.setdefault(leaf.attributes, _Shapes())
        shapes.add(number, (leaf.function, tuple(constant.plain for constant in leaf.constants)))

    def settle(self) -> None:
        """Prepares for look-ups after flags were added."""
        for shapes in self._grids.values():
            shapes.settle()

    def of(self, lanes: Mapping[str, list[Lane]], size: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Returns pairs of a row and a flag."""
        found = []
        for (latitude, longitude), shapes in list(self._grids.items()):
            north, east = _degrees(lanes.get(latitude, ()), size), _degrees(lanes.get(longitude, ()), size)
            rows = np.flatnonzero(is_place(north, east))
            if len(rows):
                found += [(rows[place], number) for place, number in shapes.around(north[rows], east[rows])]
        return found


def _degrees(lanes: Any, size: int) -> NDArray[np.float64]:
    """Returns the number of each row, NaN where there is none."""
    values = np.full(size, np.nan)
    for lane in lanes:
        if lane.kind == Kind.NUMBER:
            rest = 0.0 if lane.rest is None else lane.rest
            values[slice(None) if lane.rows is None else lane.rows] = lane.whole + rest
    return values


class _Shapes:
    """Shapes with their flags; the first ones are in a grid. One thread adds and settles, others may look up."""

    def __init__(self) -> None:
        self._shapes: list[Shape] = []
        self._numbers: list[int] = []
        self._grid = _Grid([], [])
        self._rest: tuple[int, int, _Batch] | None = None

    def add(self, number: int, shape: Shape) -> None:
        self._numbers.append(number)
        self._shapes.append(shape)  # last, because readers count the shapes

    def settle(self) -> None:
        """Rebuilds the grid if enough shapes were added."""
        count = len(self._shapes)
        if count - self._grid.count > max(FEW, self._grid.count // 8):
            self._grid = _Grid(self._shapes[:count], self._numbers[:count])

    def around(
        self, north: NDArray[np.float64], east: NDArray[np.float64]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Returns pairs of a place and the flag of a shape that contains it."""
        grid, count = self._grid, len(self._shapes)
        if grid.count:
            yield from grid.around(north, east)
        if grid.count < count:
            rest = self._rest
            if rest is None or rest[:2] != (grid.count, count):
                part = slice(grid.count, count)
                rest = self._rest = (grid.count, count, _Batch(self._shapes[part], self._numbers[part]))
            first = np.zeros(len(north), np.int64)
            yield from rest[2].inside(north, east, first, first + (count - grid.count), rest[2].every)


class _Batch:
    """Shapes in the form that the kernel takes."""

    def __init__(self, shapes: list[Shape], numbers: list[int]) -> None:
        self._shapes = shapes
        self._numbers = np.array(numbers, np.int64)
        self.every = np.arange(len(shapes), dtype=np.int32)
        self.degrees = np.array([_circle(shape) for shape in shapes], np.float64).reshape(-1, 3)
        kilometres = self.degrees[:, 2]
        half = np.clip(kilometres / (2 * EARTH), 0.0, np.pi / 2)
        limit = np.where(kilometres > HALF_WAY_AROUND, np.inf, np.where(kilometres < 0, -1.0, 4 * np.sin(half) ** 2))
        limit[np.isnan(kilometres)] = np.nan
        centres = _spots(self.degrees[:, 0], self.degrees[:, 1])
        self._circles = np.concatenate([centres, limit[:, None]], axis=1).reshape(-1)

    def inside(
        self,
        north: NDArray[np.float64],
        east: NDArray[np.float64],
        first: NDArray[np.int64],
        last: NDArray[np.int64],
        entries: NDArray[np.int32],
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Compares place i with the shapes entries[first[i]:last[i]]."""
        spots = _spots(north, east)
        pairs = np.cumsum(last - first)
        start = 0
        while start < len(north):
            done = int(pairs[start - 1]) if start else 0
            end = max(start + 1, int(np.searchsorted(pairs, done + PAIRS_AT_ONCE, "right")))
            room = int(pairs[end - 1]) - done + 1
            place, found = np.empty(room, np.int64), np.empty(room, np.int64)
            part = slice(start, end)
            sure, close = circles_around(spots[part], first[part], last[part], entries, self._circles, place, found)
            yield place[:sure] + start, self._numbers[found[:sure]]
            if close:
                place, found = place[room - close :] + start, found[room - close :]
                held = self._confirmed(north[place], east[place], found)
                yield place[held], self._numbers[found[held]]
            start = end

    def _confirmed(
        self, north: NDArray[np.float64], east: NDArray[np.float64], shape: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Decides each pair by the specification."""
        held = np.zeros(len(shape), bool)
        order = np.argsort(shape, kind="stable")
        for mine in np.split(order, np.flatnonzero(np.diff(shape[order])) + 1):
            held[mine] = contains(self._shapes[int(shape[mine[0]])], north[mine], east[mine])
        return held


def _circle(shape: Shape) -> tuple[float, float, float]:
    """Returns the centre and the radius in kilometres; a polygon has none."""
    return tuple(map(float, shape[1])) if shape[0] == "geo_within" else (np.nan, np.nan, np.nan)  # type: ignore[return-value]


def _spots(latitude: NDArray[np.float64], longitude: NDArray[np.float64]) -> NDArray[np.float64]:
    """Converts degrees to points of the unit sphere."""
    north, east = np.radians(latitude), np.radians(longitude)
    across = np.cos(north)
    return np.stack([across * np.cos(east), across * np.sin(east), np.sin(north)], axis=1)


class _Grid:
    """A grid of cells of equal size in degrees, about as large as the boxes; each cell lists the shapes whose boxes touch it. Immutable."""

    def __init__(self, shapes: list[Shape], numbers: list[int]) -> None:
        self.count = len(shapes)
        if not shapes:
            return
        boxes = _boxes(shapes)
        width = np.where(boxes[:, 3] >= boxes[:, 2], boxes[:, 3] - boxes[:, 2], boxes[:, 3] - boxes[:, 2] + 360)
        self._step = float(np.clip(np.median(np.maximum(boxes[:, 1] - boxes[:, 0], width)) / 2, LEAST_STEP, MOST_STEP))
        self._columns = int(np.ceil(360 / self._step))
        # Sorting keeps neighbours on the globe close together in memory.
        order = np.lexsort((boxes[:, 2], self._line(boxes[:, 0])))
        boxes = boxes[order]
        self._batch = _Batch([shapes[place] for place in order.tolist()], [numbers[place] for place in order.tolist()])
        south, north = self._line(boxes[:, 0]), self._line(boxes[:, 1])
        west = self._column(boxes[:, 2])
        wide = np.minimum(
            self._column(boxes[:, 3]) - west + self._columns * (boxes[:, 3] < boxes[:, 2]) + 1, self._columns
        )
        high = north - south + 1
        cells = high * wide
        which = np.repeat(np.arange(self.count, dtype=np.int32), cells)
        nth = np.arange(int(cells.sum())) - np.repeat(np.cumsum(cells) - cells, cells)
        line = south[which] + nth // wide[which]
        cell = line * self._columns + (west[which] + nth % wide[which]) % self._columns
        by_cell = np.argsort(cell, kind="stable")
        self._shape = which[by_cell]
        self._cells, first = np.unique(cell[by_cell], return_index=True)
        self._first = np.append(first, len(by_cell))

    def _line(self, latitude: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.floor((np.clip(latitude, -90, 90) + 90) / self._step).astype(np.int64)

    def _column(self, longitude: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.minimum(np.floor((longitude + 180) / self._step).astype(np.int64), self._columns - 1)

    def around(
        self, north: NDArray[np.float64], east: NDArray[np.float64]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Returns pairs of a place and the flag of a shape that contains it."""
        first, last = self._runs(north, east)
        edge = np.flatnonzero(np.abs(east) == 180)
        if not len(edge):
            yield from self._batch.inside(north, east, first, last, self._shape)
            return
        # 180 degrees east is 180 degrees west: such a place gets the shapes of both cells, each once.
        last[edge] = first[edge]
        yield from self._batch.inside(north, east, first, last, self._shape)
        for place in edge.tolist():
            here = slice(place, place + 1)
            runs = zip(*self._runs(north[[place, place]], np.array([-180.0, 180.0])), strict=True)
            entries = np.unique(np.concatenate([self._shape[begin:end] for begin, end in runs]))
            for _, numbers in self._batch.inside(
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
    circles = np.array([_circle(shape) for shape in shapes], np.float64)
    boxes = boxes_of_circles(circles)
    for place in np.flatnonzero(np.isnan(circles[:, 2])).tolist():
        boxes[place] = box_of(shapes[place])
    return boxes
