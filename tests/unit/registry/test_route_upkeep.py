"""The registry changes the routes of stored subscriptions by itself: when the stream has changed, once, and for as long as that pays."""

from __future__ import annotations

import threading
from queue import Queue
from typing import Any

import pytest

from actors.registry.rebalancing import Mover, Rerouted
from actors.registry.registry import Registry
from actors.registry.route_upkeep import RouteUpkeep
from actors.registry.routes import Routes
from ray_pubsub.model.events import read_events
from ray_pubsub.settings import Limits
from ray_pubsub.sharding.frequency import AttributeFrequencies
from ray_pubsub.sharding.pivots import Route
from ray_pubsub.sharding.rerouting import ReroutePlan
from tests.unit.registry.test_change_writer import World, world
from tests.unit.registry.test_opening import Alone

A, B = Route(("a",)), Route(("b",))
OFTEN_A = {"a": 1.0, "b": 0.01}
OFTEN_B = {"a": 0.01, "b": 1.0}


class Stream:
    """What one coordinator reports, as events go on."""

    def __init__(self) -> None:
        self.learned = AttributeFrequencies(half_life=500)

    def then(self, shares: dict[str, float], count: int = 2000) -> dict[str, Any]:
        self.learned.observe(
            read_events(
                [{name: 1 for name, share in shares.items() if row % 100 < share * 100} for row in range(count)]
            )
        )
        return self.learned.state()


def upkeep_of(found: World, routes: Routes) -> tuple[RouteUpkeep, Any]:
    upkeep = RouteUpkeep(routes, found.mover, 60.0, None)

    def again(columns: Any) -> list[Route]:
        rarer = min(("a", "b"), key=routes.frequencies().frequency)
        return [Route((rarer,))] * len(columns.all_numbers)

    return upkeep, lambda known, lasted: found.mover.reroute(known, 1.1, again, lasted)


def test_routes_follow_a_stream_that_turns_and_turns_back() -> None:
    with world() as found:
        found.texts([f"s{number}" for number in range(300)], [A] * 300)
        routes, stream = Routes(Limits(), None), Stream()
        upkeep, reroute = upkeep_of(found, routes)
        upkeep.check(reroute)
        assert upkeep.stats()["looks"] == 0, "there were no events yet"
        for shares, right in ((OFTEN_A, B), (OFTEN_B, A)):
            for _ in range(3):
                routes.learn(0, stream.then(shares))
                upkeep.check(reroute)
            assert {route for _, route, _ in found.store.route_counts()} == {right}
            assert upkeep.stats()["changed_for"] == 0.0
            assert upkeep.stats()["fan_out"] < 0.2
            found.placement.reweigh(AttributeFrequencies())
            found.check()
        stats = upkeep.stats()
        assert stats["rerouted"] == 600 and stats["looks"] <= 4 and stats["checks"] == 7
        for _ in range(5):
            routes.learn(0, stream.then(OFTEN_B))
            upkeep.check(reroute)
        assert upkeep.stats()["looks"] == stats["looks"], "a stream that stays as it is is not looked at again"


def test_many_subscriptions_wait_until_it_pays() -> None:
    with world() as found:
        found.texts([f"s{number}" for number in range(9000)], [A] * 9000)
        routes, stream = Routes(Limits(), None), Stream()
        upkeep, reroute = upkeep_of(found, routes)
        seen = []
        for _ in range(5):
            routes.learn(0, stream.then(OFTEN_A, 1000))
            upkeep.check(reroute)
            seen.append((upkeep.stats()["looks"], upkeep.stats()["rerouted"]))
        assert seen[0] == (1, 0), "a look, which finds routes that have not paid yet"
        assert seen[-1] == (2, 9000), "and one when they have"


def test_what_is_saved_spares_the_next_instance_a_look() -> None:
    with world() as found:
        found.texts(["s1", "s2"], [A] * 2)
        routes, stream = Routes(Limits(), None), Stream()
        upkeep, reroute = upkeep_of(found, routes)
        routes.learn(0, stream.then(OFTEN_A))
        upkeep.check(reroute)
        restored = RouteUpkeep(Routes(Limits(), routes.frequencies().state()), found.mover, 60.0, upkeep.saved())
        restored.check(reroute)
        assert restored.stats()["looks"] == 0 and restored.stats()["changed_for"] == 0.0


def test_a_registry_does_it_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: Queue[tuple[float, float]] = Queue()

    def reroute(_: Mover, known: AttributeFrequencies, factor: float, again: Any, lasted: float) -> Rerouted:
        looks.put((known.frequency("a"), lasted))
        return Rerouted(ReroutePlan([], 1.0, 1.0), 0)

    monkeypatch.setattr(Mover, "reroute", reroute)
    registry = Registry(Alone(), None, {"shards": 1, "lease": 0.1, "timeout": 5.0, "reroute_every": 0.001})
    registry.subscribe("desk", "a = 1 and b = 1", "s1")
    registry.renew(0, 1, 1, 1, Stream().then(OFTEN_A))
    assert looks.get(timeout=60) == (pytest.approx(1.0), 2000.0)
    registry.close()


def test_a_registry_does_not_if_it_was_told_not_to() -> None:
    before = set(threading.enumerate())
    registry = Registry(Alone(), None, {"shards": 1, "lease": 0.1, "timeout": 5.0, "reroute_every": 0})
    registry.subscribe("desk", "a = 1 and b = 1", "s1")
    registry.renew(0, 1, 1, 1, Stream().then(OFTEN_A))
    assert registry.stats()["routes"] == {
        "every": 0, "fan_out": None, "changed_for": 0.0, "checks": 0, "looks": 0, "rerouted": 0,
    }  # fmt: skip
    assert "registry-routes" not in {thread.name for thread in set(threading.enumerate()) - before}
    registry.close()
