"""Compares places with shapes exactly: circles by a kernel (kernels/computed/places.py); polygons, and circles whose edge is too close for
the kernel to decide, by the specification (language/functions/places.py)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.computed.places import circles_around
from ray_pubsub.language.functions.places import EARTH, Shape, contains

__all__ = ["PlaceShapes", "circle_of"]

PAIRS_AT_ONCE = 1 << 20
HALF_WAY_AROUND = np.pi * EARTH * (1 + 1e-9)
"""In kilometres. No two places are farther apart."""


class PlaceShapes:
    """Shapes in the form that the kernel takes."""

    def __init__(self, shapes: list[Shape], numbers: list[int]) -> None:
        self._shapes = shapes
        self._numbers = np.array(numbers, np.int64)
        self.every = np.arange(len(shapes), dtype=np.int32)
        self.degrees = np.array([circle_of(shape) for shape in shapes], np.float64).reshape(-1, 3)
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


def circle_of(shape: Shape) -> tuple[float, float, float]:
    """Returns the centre and the radius in kilometres; a polygon has none."""
    return tuple(map(float, shape[1])) if shape[0] == "geo_within" else (np.nan, np.nan, np.nan)  # type: ignore[return-value]


def _spots(latitude: NDArray[np.float64], longitude: NDArray[np.float64]) -> NDArray[np.float64]:
    """Converts degrees to points of the unit sphere."""
    north, east = np.radians(latitude), np.radians(longitude)
    across = np.cos(north)
    return np.stack([across * np.cos(east), across * np.sin(east), np.sin(north)], axis=1)
