"""Which shards a batch visits, against counting by brute force."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_pubsub.errors import SettingError
from ray_pubsub.model.events import read_events
from ray_pubsub.sharding import routing
from ray_pubsub.sharding.pivots import NEVER, UNIVERSAL, Route
from ray_pubsub.sharding.routing import ShardRoutes

SHARDS = 3
NAMES = st.sampled_from("abcd")
ROUTES = st.lists(NAMES, unique=True, max_size=3).map(lambda names: Route(tuple(names))) | st.just(UNIVERSAL)
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "clear"]), st.integers(0, SHARDS - 1), ROUTES, st.integers(1, 3)),
    max_size=30,
)


def visited_by(routes: ShardRoutes, events: Any) -> tuple[int, ...]:
    """As a coordinator asks: by the attributes of which the batch has a value."""
    return routes.visited([lane.attribute for lane in read_events(events).lanes if len(lane)])


def expected(there: Counter[tuple[int, Route]], carried: set[str]) -> tuple[int, ...]:
    return tuple(
        shard
        for shard in range(SHARDS)
        if any(
            count and of == shard and (route.universal or carried & set(route.attributes))
            for (of, route), count in there.items()
        )
    )


@given(STEPS, st.lists(st.sets(NAMES), min_size=1, max_size=6))
def test_against_brute_force(steps: list[tuple[str, int, Route, int]], asked: list[set[str]]) -> None:
    routes = ShardRoutes(SHARDS)
    there: Counter[tuple[int, Route]] = Counter()
    for step, shard, route, count in steps:
        if step == "add":
            routes.add(shard, route, count)
            there[shard, route] += count
        elif step == "remove" and there[shard, route]:
            fewer = min(count, there[shard, route])
            routes.remove(shard, route, fewer)
            there[shard, route] -= fewer
        elif step == "clear":
            routes.clear(shard)
            there = Counter({key: count for key, count in there.items() if key[0] != shard})
        for carried in asked:
            assert routes.visited(carried) == expected(there, carried)
    for shard in range(SHARDS):
        counted: Counter[str] = Counter()
        for (of, route), count in there.items():
            counted.update(dict.fromkeys(route.attributes, count) if of == shard and count else {})
        assert routes.pivots(shard) == counted
        assert routes.universal(shard) == there[shard, UNIVERSAL]


def test_a_batch_visits_by_what_its_events_carry() -> None:
    routes = ShardRoutes(3)
    routes.add(0, Route(("x",)))
    routes.add(1, Route(("y",)))
    routes.add(2, NEVER)
    assert visited_by(routes, [{"x": 1}, {"x": "text", "z": 1}]) == (0,)
    assert visited_by(routes, [{"x": None}, {"z": 1}]) == ()
    assert visited_by(routes, [{"x": 1}, {"y": 1}]) == (0, 1)
    routes.add(2, UNIVERSAL)
    assert visited_by(routes, [{}]) == (2,)


def test_a_lane_without_values_is_not_carried() -> None:
    import pyarrow as pa

    routes = ShardRoutes(2)
    routes.add(0, Route(("x",)))
    routes.add(1, Route(("y",)))
    table = pa.table({"x": pa.array([None, None], pa.int64()), "y": [1, None]})
    assert visited_by(routes, table) == (1,)


def test_what_is_not_there_cannot_be_removed_and_nothing_is_half_removed() -> None:
    routes = ShardRoutes(2)
    routes.add(0, Route(("x",)), 2)
    for route, count in ((Route(("x", "y")), 1), (Route(("x",)), 3), (UNIVERSAL, 1)):
        with pytest.raises(SettingError):
            routes.remove(0, route, count)
    with pytest.raises(SettingError):
        routes.remove(1, Route(("x",)))
    assert routes.pivots(0) == {"x": 2}


def test_what_is_remembered_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(routing, "MOST_LAYOUTS", 2)
    routes = ShardRoutes(1)
    routes.add(0, Route(("a1",)))
    assert [routes.visited([f"a{number}"]) for number in range(4)] == [(), (0,), (), ()]
    assert [routes.visited([f"a{number}"]) for number in range(4)] == [(), (0,), (), ()]


@pytest.mark.parametrize("shards", [0, -1, "2"])
def test_bad_settings(shards: Any) -> None:
    with pytest.raises(SettingError):
        ShardRoutes(shards)
