"""Routes of stored subscriptions, chosen again by what coordinators have learned since."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from actors.registry.columns import IntervalColumns, ShardColumns
from actors.registry.routes import Routes
from ray_pubsub.model.events import read_events
from ray_pubsub.settings import Limits
from ray_pubsub.sharding.frequency import AttributeFrequencies
from ray_pubsub.sharding.pivots import Route

TEXTS = ["a = 1 and b = 2", "a = 1 or c = 3", "b < 5 and a like '%x'", "a is null", "b > 1 and c > 1"]


def numbered(first: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    numbers = np.arange(first, first + count)
    return numbers, numbers, np.zeros(count, np.int32), np.zeros(count, np.int32)


def columns() -> ShardColumns:
    table = pa.table({"id": [11, 11, 10], "attribute": ["b", "a", "c"], "low": [0, 0, 0], "high": [1, 1, 1]})
    return ShardColumns(7, *numbered(0, len(TEXTS)), TEXTS, [IntervalColumns(*numbered(10, 2), table)])


def learned(**shares: float) -> dict[str, object]:
    found = AttributeFrequencies()
    found.observe(read_events([{name: 1 for name, share in shares.items() if row < share * 100} for row in range(100)]))
    return found.state()


def test_they_are_those_that_new_subscriptions_would_get() -> None:
    for shares, rarer in (({"a": 1.0, "b": 0.1, "c": 0.5}, "b"), ({"a": 0.1, "b": 1.0, "c": 0.5}, "a")):
        routes = Routes(Limits(), None, ignore_case=rarer == "a")
        routes.learn(0, learned(**shares))
        found = routes.chosen_again(columns())
        assert found[: len(TEXTS)] == [routes.route(text) for text in TEXTS]
        assert found[0] == found[2] == Route((rarer,))
        assert found[3] == Route((), True)
        assert found[len(TEXTS) :] == [Route(("c",)), Route((rarer,))]


def test_asking_changes_nothing() -> None:
    routes = Routes(Limits(), None)
    before = routes.route("a = 1 and b = 2")
    for _ in range(3):
        routes.chosen_again(columns())
    assert routes.route("a = 1 and b = 2") == before


def test_what_an_earlier_instance_knew_fades() -> None:
    """However much it had seen: a stream that has turned since is known for what it is."""
    before = AttributeFrequencies()
    for _ in range(50):
        before.observe(read_events([{"a": 1}] * 20_000))
    routes, later = Routes(Limits(), before.state()), AttributeFrequencies()
    assert routes.route("a = 1 and b = 1") == Route(("b",))
    for _ in range(20):
        later.observe(read_events([{"b": 1}] * 20_000))
    routes.learn(0, later.state())
    assert routes.frequencies().frequency("a") < 0.1 and routes.route("a = 1 and b = 1") == Route(("a",))


def test_a_coordinator_that_restarts_takes_nothing_away() -> None:
    """What its predecessor saw is kept, and fades as it sees more."""
    routes = Routes(Limits(), None)
    routes.learn(0, learned(a=1.0))
    routes.learn(0, learned(a=1.0))
    assert routes.frequencies().observed == 100, "the same instance, again"
    again = AttributeFrequencies()
    again.observe(read_events([{"b": 1}] * 50))
    for _ in range(2):
        routes.learn(0, again.state())
        known = routes.frequencies()
        assert known.observed == 150
        assert 0.6 < known.frequency("a") < 0.7 and 0.3 < known.frequency("b") < 0.4
