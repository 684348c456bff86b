"""Tests events against circles and polygons, for all subscriptions at once: an event is compared only with the shapes near it.

Grids (place_grids.py) find the shapes near an event, which are then compared exactly (place_shapes.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.computed.place_grids import PlaceGrids
from ray_pubsub.columns.computed.place_shapes import PlaceShapes
from ray_pubsub.language.functions.places import Shape, is_place
from ray_pubsub.language.tree import Holds
from ray_pubsub.model.event_batch import Lane
from ray_pubsub.model.values import Kind

__all__ = ["PLACES", "PlaceFlags"]

PLACES = {"geo_within", "geo_in_polygon"}
FEW = 64
"""Up to this many shapes are compared with every event instead of being put into the grid."""
GROWTH = 8
"""Grids are merged when the later ones together have more than this fraction of the shapes of an earlier one, so there are few of them and
each shape moves rarely."""


class PlaceFlags:
    """The flags of shapes on pairs of latitude and longitude. It only grows; one thread adds, others may look up."""

    def __init__(self) -> None:
        self._grids: dict[tuple[str, ...], _Shapes] = {}

    def __bool__(self) -> bool:
        return bool(self._grids)

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
    """Shapes with their flags: the first ones in grids, the rest in a batch. One thread adds and settles, others may look up."""

    def __init__(self) -> None:
        self._shapes: list[Shape] = []
        self._numbers: list[int] = []
        self._grids: tuple[PlaceGrids, ...] = ()
        self._rest: tuple[int, int, PlaceShapes] | None = None

    def add(self, number: int, shape: Shape) -> None:
        self._numbers.append(number)
        self._shapes.append(shape)  # last, because readers count the shapes

    def settle(self) -> None:
        """Puts the rest into a grid, with those of the earlier grids that are not much larger, if it is not just a few shapes."""
        grids, count = list(self._grids), len(self._shapes)
        start = sum(grid.count for grid in grids)
        if count - start <= FEW:
            return
        while grids and grids[-1].count < GROWTH * (count - start):
            start -= grids.pop().count
        self._grids = (*grids, PlaceGrids(self._shapes[start:count], self._numbers[start:count]))

    def around(
        self, north: NDArray[np.float64], east: NDArray[np.float64]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Returns pairs of a place and the flag of a shape that contains it."""
        grids, count = self._grids, len(self._shapes)
        for grid in grids:
            yield from grid.around(north, east)
        start = sum(grid.count for grid in grids)
        if start < count:
            rest = self._rest
            if rest is None or rest[:2] != (start, count):
                part = slice(start, count)
                rest = self._rest = (start, count, PlaceShapes(self._shapes[part], self._numbers[part]))
            first = np.zeros(len(north), np.int64)
            yield from rest[2].inside(north, east, first, first + (count - start), rest[2].every)
