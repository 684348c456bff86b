"""Translates Elasticsearch's queries of places: circles and boxes. A place is an object of `lat` and `lon` in an event."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ray_pubsub.errors import RuleFormatError
from ray_pubsub.importers.conditions import Condition
from ray_pubsub.importers.field import Field, decided
from ray_pubsub.language.words import write_name

__all__ = ["in_box", "in_polygon", "within_distance"]

DISTANCE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")
KILOMETRES = {
    "": 0.001, "m": 0.001, "meters": 0.001, "km": 1.0, "kilometers": 1.0, "mi": 1.609344, "miles": 1.609344, "yd": 0.0009144,
    "yards": 0.0009144, "ft": 0.0003048, "feet": 0.0003048, "in": 0.0000254, "inch": 0.0000254, "cm": 0.00001, "centimeters": 0.00001,
    "mm": 0.000001, "millimeters": 0.000001, "nmi": 1.852, "NM": 1.852, "nauticalmiles": 1.852,
}  # fmt: skip
IGNORED = {"boost", "_name", "distance_type", "validation_method", "ignore_unmapped", "type"}
"""Options that do not change which places match, but for `distance_type`, whose other value, plane, is the less exact one."""


PlaceTest = tuple[str, Callable[[Field], Condition]]
"""The name of a field, and the test of the place in it."""


def within_distance(body: Mapping[str, Any], format: str) -> PlaceTest:
    """Translates `{"distance": "12km", "place": {"lat": 40, "lon": -70}}`."""
    name, place = _field(body, {"distance"}, format)
    found = DISTANCE.fullmatch(str(body.get("distance")))
    if found is None or found[2] not in KILOMETRES:
        raise RuleFormatError(format, f"geo_distance: {body.get('distance')!r} is no distance")
    kilometres = float(found[1]) * KILOMETRES[found[2]]
    latitude, longitude = _place(place, format)
    return name, partial(_test, "geo_within", repr((latitude, longitude, kilometres))[1:-1])


def in_box(body: Mapping[str, Any], format: str) -> PlaceTest:
    """Translates a box: by two of its corners, or by `top`, `left`, `bottom` and `right`."""
    name, box = _field(body, set(), format)
    if not isinstance(box, Mapping):
        raise RuleFormatError(format, f"geo_bounding_box of {name} has corners, not {box!r}")
    if set(box) == {"top", "left", "bottom", "right"}:
        north, west, south, east = (_number(box[side], format) for side in ("top", "left", "bottom", "right"))
    elif set(box) == {"top_left", "bottom_right"}:
        (north, west), (south, east) = (_place(box[corner], format) for corner in ("top_left", "bottom_right"))
    elif set(box) == {"top_right", "bottom_left"}:
        (north, east), (south, west) = (_place(box[corner], format) for corner in ("top_right", "bottom_left"))
    else:
        raise RuleFormatError(format, f"geo_bounding_box of {name}: {dict(box)!r} cannot be expressed")
    return name, partial(_test, "geo_in_box", repr((south, west, north, east))[1:-1])


def in_polygon(body: Mapping[str, Any], format: str) -> PlaceTest:
    """Translates `{"place": {"points": [{"lat": 40, "lon": -70}, …]}}`."""
    name, polygon = _field(body, set(), format)
    points = polygon.get("points") if isinstance(polygon, Mapping) else None
    if not isinstance(points, list) or len(points) < 3:
        raise RuleFormatError(format, f"geo_polygon of {name} has three points or more, not {points!r}")
    corners = ", ".join(f"{east!r} {north!r}" for north, east in (_place(each, format) for each in points))
    return name, partial(_test, "geo_in_polygon", f"'POLYGON(({corners}))'")


def _field(body: Any, known: set[str], format: str) -> tuple[str, Any]:
    if not isinstance(body, Mapping):
        raise RuleFormatError(format, f"a query of places names a field, not {body!r}")
    if body.get("distance_type", "arc") != "arc":
        raise RuleFormatError(format, f"the distance_type {body['distance_type']!r} cannot be expressed; arc can")
    fields = [(name, given) for name, given in body.items() if name not in known | IGNORED]
    if len(fields) != 1:
        raise RuleFormatError(format, f"a query of places names one field, not {[name for name, _ in fields]!r}")
    return fields[0]


def _place(given: Any, format: str) -> tuple[float, float]:
    """Returns latitude and longitude, written as an object, as the text "lat,lon", or as the array [lon, lat]."""
    if isinstance(given, Mapping) and set(given) == {"lat", "lon"}:
        return _number(given["lat"], format), _number(given["lon"], format)
    if isinstance(given, list) and len(given) == 2:
        return _number(given[1], format), _number(given[0], format)
    parts = given.split(",") if isinstance(given, str) else []
    if len(parts) == 2:
        return _number(parts[0], format), _number(parts[1], format)
    raise RuleFormatError(format, f"{given!r} is no place: write {{'lat': 40, 'lon': -70}}")


def _number(given: Any, format: str) -> float:
    try:
        if not isinstance(given, bool):
            return float(given)
    except (TypeError, ValueError):
        pass
    raise RuleFormatError(format, f"{given!r} is no number of degrees")


def _test(function: str, constants: str, field: Field) -> Condition:
    subject = ", ".join(write_name(f"{field.name}.{part}") for part in ("lat", "lon"))
    asked = [f"{function}({subject}, {constants})"]
    if field.lists:
        asked.append(f"exists({write_name(field.name)}, {function}(lat, lon, {constants}))")
    return decided(asked)
