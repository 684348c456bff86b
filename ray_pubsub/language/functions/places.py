"""Places on the globe: circles and polygons, with the bounding box of each for an index. In degrees, north and east positive; kilometres.

A distance is the haversine distance on a sphere of the earth's mean radius. A polygon's edges are straight in degrees, and it must not
cross the antimeridian; a point on an edge may count either way. Coordinates outside of -90 to 90 and -180 to 180 degrees are not a place.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.language.words import BadConstant

__all__ = ["Box", "Shape", "box_of", "boxes_of_circles", "contains", "is_place", "polygon_of"]

EARTH = 6371.0088
NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
CORNER = rf"{NUMBER}\s+{NUMBER}"
RING = rf"\(\s*{CORNER}(?:\s*,\s*{CORNER})*\s*\)"
POLYGON = re.compile(rf"\s*POLYGON\s*\(\s*({RING}(?:\s*,\s*{RING})*)\s*\)\s*", re.IGNORECASE)

Shape = tuple[str, tuple[Any, ...]]
"""geo_within with latitude, longitude and kilometres; or geo_in_polygon with its text."""


class Box(NamedTuple):
    """The bounding box of a shape. `west` is greater than `east` if the box crosses the antimeridian."""

    south: float
    north: float
    west: float
    east: float


def is_place(latitude: Any, longitude: Any) -> Any:
    """Returns whether numbers, or the elements of arrays, are a valid place."""
    return (latitude >= -90) & (latitude <= 90) & (longitude >= -180) & (longitude <= 180)


def contains(shape: Shape, latitude: NDArray[np.float64], longitude: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Returns which of these places lie in a shape."""
    function, constants = shape
    if function == "geo_within":
        found: NDArray[np.bool_] = distances(latitude, longitude, constants[0], constants[1]) <= constants[2]
        return found
    outer, *holes = polygon_of(constants[0])
    inside = _in_ring(outer, latitude, longitude)
    for hole in holes:
        inside &= ~_in_ring(hole, latitude, longitude)
    return inside


def distances(latitude: Any, longitude: Any, other_latitude: Any, other_longitude: Any) -> NDArray[np.float64]:
    """Returns the kilometres between places, pair by pair."""
    first, second = np.radians(latitude), np.radians(other_latitude)
    half = np.sin((second - first) / 2) ** 2
    across = np.sin(np.radians(np.subtract(other_longitude, longitude)) / 2) ** 2
    chord = half + np.cos(first) * np.cos(second) * across
    found: NDArray[np.float64] = 2 * EARTH * np.arcsin(np.sqrt(np.clip(chord, 0.0, 1.0)))
    return found


def box_of(shape: Shape) -> Box:
    """Returns a box that contains the whole shape, with a small margin for rounding."""
    function, constants = shape
    if function == "geo_in_polygon":
        corners = polygon_of(constants[0])[0]
        return Box(
            *(
                float(bound)
                for bound in (corners[:, 0].min(), corners[:, 0].max(), corners[:, 1].min(), corners[:, 1].max())
            )
        )
    return Box(*boxes_of_circles(np.array([constants], np.float64))[0].tolist())


def boxes_of_circles(circles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the same for many circles: rows of latitude, longitude and kilometres become rows of a box's bounds."""
    latitude, longitude, kilometres = circles.T
    angle = kilometres / EARTH * (1 + 1e-9) + 1e-9
    south, north = latitude - np.degrees(angle), latitude + np.degrees(angle)
    pole = (south <= -90) | (north >= 90) | (angle >= np.pi / 2)  # it contains a pole, so every longitude
    with np.errstate(invalid="ignore", divide="ignore"):
        wide = np.degrees(np.arcsin(np.minimum(1.0, np.sin(angle) / np.cos(np.radians(latitude)))))
    around = pole | (wide >= 180)
    west = np.where(around, -180.0, _turned(longitude - wide))
    east = np.where(around, 180.0, _turned(longitude + wide))
    return np.stack([np.maximum(south, -90.0), np.minimum(north, 90.0), west, east], axis=1)


def _turned(longitude: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(longitude < -180, longitude + 360, np.where(longitude > 180, longitude - 360, longitude))


@lru_cache(maxsize=4096)
def polygon_of(text: str) -> tuple[NDArray[np.float64], ...]:
    """Returns the rings of `POLYGON((longitude latitude, …), …)`, the outer one first, then those of its holes: latitudes and longitudes
    of their corners, which WKT has in the other order."""
    found = POLYGON.fullmatch(text)
    if found is None:
        raise BadConstant("a polygon is written 'POLYGON((longitude latitude, …))', with a ring more for each hole")
    return tuple(_ring(ring[1]) for ring in re.finditer(r"\(([^()]*)\)", found[1]))


def _ring(text: str) -> NDArray[np.float64]:
    corners = np.array([[float(number) for number in pair.split()][::-1] for pair in text.split(",")])
    if len(corners) > 1 and (corners[0] == corners[-1]).all():
        corners = corners[:-1]
    if len(corners) < 3:
        raise BadConstant("each ring of a polygon has at least three corners")
    if not is_place(corners[:, 0], corners[:, 1]).all():
        raise BadConstant("a corner of the polygon is no place: longitude comes first, from -180 to 180, then latitude")
    corners.flags.writeable = False
    return corners


def _in_ring(
    corners: NDArray[np.float64], latitude: NDArray[np.float64], longitude: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Tests points by counting the edges to the east of each. Edges along a circle of latitude are not counted."""
    following = np.roll(corners, -1, axis=0)
    slanted = corners[:, 0] != following[:, 0]
    (north, east), (other_north, other_east) = corners[slanted].T, following[slanted].T
    inside = np.zeros(len(latitude), bool)
    at_once = max(1, PAIRS_AT_ONCE // max(1, len(north)))
    for start in range(0, len(latitude), at_once):
        here = slice(start, start + at_once)
        place, across = latitude[here, None], longitude[here, None]
        between = (north > place) != (other_north > place)
        crossed = between & (across < (other_east - east) * (place - north) / (other_north - north) + east)
        inside[here] = crossed.sum(axis=1) % 2 == 1
    return inside


PAIRS_AT_ONCE = 1 << 16
"""Places times edges that are compared together: few enough for a processor's cache."""
