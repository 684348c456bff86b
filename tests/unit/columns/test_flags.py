"""Flags of lists and of places are those that the specification gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from ray_pubsub.columns.computed.constant_flags import ConstantFlags
from ray_pubsub.columns.computed.place_flags import PlaceFlags
from ray_pubsub.columns.computed.place_grids import PlaceGrids
from ray_pubsub.columns.computed.place_shapes import PlaceShapes
from ray_pubsub.kernels.computed.flags import distinct_flags, flags_by_row
from ray_pubsub.language.functions.places import Shape, box_of, contains, distances
from ray_pubsub.language.tree import Holds, Operand
from ray_pubsub.model.event_batch import Lane
from ray_pubsub.model.events import read_events
from ray_pubsub.model.values import Kind, Value, read_value

POOL: list[Any] = [
    "a", "b", "", "ä", "long" * 9, *map(str, range(300)), 1, 2, -7, 2**62, -(2**63), 1.5, -0.0, 2.0, 1e300, -1e19, True, False,
    np.datetime64("2024-01-01"), np.datetime64("1960-01-01"),
]  # fmt: skip


def test_elements_are_looked_up_as_in_a_dictionary() -> None:
    random = Random(1)
    constants, model = ConstantFlags(), dict[Value, list[int]]()
    for number in range(600):
        value = read_value(random.choice(POOL))
        assert value is not None
        constants.add(value.kind, value.plain, number)
        model.setdefault(value, []).append(number)
        if number % 50 == 0:
            constants.settle()
        if number % 37 and number < 599:
            continue
        elements = random.choices([*POOL, "x", 3, 0.25], k=40)
        for lane in read_events([{"e": element} for element in elements]).lanes:
            cells, numbers = constants.of_lane(lane)
            assert (np.diff(cells) >= 0).all()
            for cell in range(len(lane)):
                plain = Value(lane.kind, lane.plain(cell))
                wanted = model.get(plain, [])
                assert sorted(numbers[cells == cell].tolist()) == sorted(wanted) == sorted(constants.of_element(plain))


@pytest.mark.parametrize("most", [3, 40])
def test_a_flag_comes_once_per_row(most: int) -> None:
    random = np.random.default_rng(most)
    rows = np.sort(random.integers(0, 30, 600))
    numbers = random.integers(0, most, 600)
    keep = distinct_flags(rows, numbers)
    pairs = list(zip(rows.tolist(), numbers.tolist(), strict=True))
    first = {pair: place for place, pair in reversed(list(enumerate(pairs)))}
    assert sorted(np.flatnonzero(keep).tolist()) == sorted(first.values())
    mixed = random.permutation(600)
    by_row, with_number = flags_by_row(rows[mixed], numbers[mixed], 30)
    assert (np.diff(by_row) >= 0).all()
    assert sorted(zip(by_row.tolist(), with_number.tolist(), strict=True)) == sorted(pairs)


def places(seed: int, count: int) -> list[tuple[float, float]]:
    random = Random(seed)
    special = [
        (90.0, 0.0),
        (-90.0, 7.0),
        (89.99, 33.0),
        (89.5, -170.0),
        (0.0, 180.0),
        (0.0, -180.0),
        (10.0, 179.99),
        (10.0, -179.99),
        (0.0, 0.0),
    ]
    near = [(50 + random.random(), 8 + random.random()) for _ in range(count)]
    return [*special, *near, *((random.uniform(-90, 90), random.uniform(-180, 180)) for _ in range(count))]


def shapes(seed: int, count: int) -> list[Holds]:
    """Circles of all sizes, many of which have a place exactly on their edge, or a hair beside it; and some polygons."""
    random, found = Random(seed), list[Holds]()
    spots = places(seed, 20)
    for _ in range(count):
        latitude, longitude = random.choice(spots)
        if random.random() < 0.5:
            other = random.choice(spots)
            radius = float(distances(*other, latitude, longitude))
            radius = random.choice([radius, float(np.nextafter(radius, 0)), float(np.nextafter(radius, 1e9))])
        else:
            radius = random.choice([0, 1e-9, 0.001, random.uniform(0, 50), random.uniform(0, 25_000), 20_015.1, 1e6])
        found.append(_leaf("geo_within", [latitude, longitude, radius]))
    west, south = random.uniform(7, 8), random.uniform(49, 50)
    corners = f"{west} {south}, {west + 2} {south + 0.3}, {west + 1} {south + 2}"
    return [*found, _leaf("geo_in_polygon", [f"POLYGON(({corners}))"])]


def _leaf(function: str, constants: list[Any]) -> Holds:
    kind: Callable[[Any], Kind] = lambda constant: Kind.STRING if isinstance(constant, str) else Kind.NUMBER  # noqa: E731
    return Holds(function, ("lat", "lon"), tuple(Operand(kind(constant), constant) for constant in constants))


@pytest.mark.parametrize("seed", range(4))
def test_places_lie_in_the_shapes_of_the_specification(seed: int) -> None:
    flags = PlaceFlags()
    leaves = shapes(seed, 750)
    for number, leaf in enumerate(leaves):
        flags.add(number, leaf)
        if number in (600, 672) and seed % 2:
            flags.settle()  # two sets of grids; the rest is in none
    if not seed % 2:
        flags.settle()
    spots = places(seed, 20)
    events: list[dict[str, Any]] = [{"lat": latitude, "lon": longitude} for latitude, longitude in spots]
    events[5:5] = [{"lat": 91, "lon": 0}, {"lat": 5}, {"lat": "x", "lon": 1}]
    lanes: dict[str, list[Lane]] = {}
    for lane in read_events(events).lanes:
        lanes.setdefault(lane.attribute, []).append(lane)
    found = [
        pair
        for rows, numbers in flags.of(lanes, len(events))
        for pair in zip(rows.tolist(), numbers.tolist(), strict=True)
    ]
    wanted = []
    for number, leaf in enumerate(leaves):
        shape = leaf.function, tuple(constant.plain for constant in leaf.constants)
        good = [row for row in range(len(events)) if not 5 <= row < 8]
        north, east = (np.array([float(events[row][name]) for row in good]) for name in ("lat", "lon"))
        inside = np.flatnonzero(contains(shape, north, east))
        wanted += [(good[place], number) for place in inside.tolist()]
        box = box_of(shape)
        assert (box.south <= north[inside]).all() and (north[inside] <= box.north).all()
    assert sorted(found) == sorted(wanted)
    assert len(set(found)) == len(found)


def test_a_few_large_shapes_fill_few_cells() -> None:
    small = [("geo_within", (50 + number / 100, 8.0, 1.0)) for number in range(70)]
    sizes = [500.0, 5_000.0, 10_000.0, 20_000.0, 1e6]
    large = [("geo_within", (latitude, 8.0, size)) for size in sizes for latitude in (-89.0, 0.0, 50.0, 90.0)]
    polar = [("geo_within", (latitude, 8.0, 1.0)) for latitude in (90.0, 89.999, -89.99, -89.0)]
    shapes: list[Shape] = [*small, *large, *polar, ("geo_in_polygon", ("POLYGON((-180 10, 180 10, 0 10.001))",))]
    assert PlaceGrids(shapes, list(range(len(shapes)))).cells <= 25 * len(shapes)


def test_places_are_compared_with_shapes_near_them(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def inside(self: PlaceShapes, north: Any, east: Any, first: Any, last: Any, entries: Any) -> Iterator[Any]:
        compared.append(int((last - first).sum()))
        return iter(())

    monkeypatch.setattr(PlaceShapes, "inside", inside)
    random = Random(3)
    flags = PlaceFlags()
    for number in range(2000):
        spot = [random.uniform(47, 55), random.uniform(6, 15), random.uniform(1, 20)]
        flags.add(number, _leaf("geo_within", [random.uniform(89.8, 90), *spot[1:]] if number % 9 == 0 else spot))
        if number % 70 == 0:
            flags.settle()
    flags.settle()
    event = {"lat": 51.0, "lon": 10.0}
    lanes = {lane.attribute: [lane] for lane in read_events([event]).lanes}
    assert not list(flags.of(lanes, 1))
    assert sum(compared) < 64 + 40  # the shapes that are in no grid yet, and those near the event
