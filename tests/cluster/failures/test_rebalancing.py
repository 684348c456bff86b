"""Subscriptions move between shards while events are published: every publication has each of them once, whichever process dies
meanwhile."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import ray_pubsub
from actors.client.server import Server
from actors.cluster.joining import Joined
from actors.transport.calls import answer
from ray_pubsub.errors import UnavailableError
from tests.chaos.processes import kill

PIVOTS, EACH = 16, 3
EVENT = {f"p{pivot}": 1 for pivot in range(PIVOTS)}
DEADLINE = 60.0


def until(condition: Callable[[], bool], what: str) -> None:
    ends = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < ends, what
        time.sleep(0.005)


@pytest.fixture(scope="module")
def server(cluster: Joined, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with ray_pubsub.start(2, tmp_path_factory.mktemp("moving"), "moving", lease=1.0, reroute_every=0.05) as server:
        yield server


def moving(server: Server) -> bool:
    try:
        return bool(answer(server.coordinator.health.remote(), "the coordinator", 5.0)["moving"])
    except UnavailableError:
        return True


def skewed(server: Server, name: str) -> list[str]:
    """Subscriptions of many pivots, all of them on one shard, all matching the event."""
    for subscription in list(server.subscriptions("desk")):
        server.unsubscribe(subscription.id)
    for pivot in range(PIVOTS):
        for number in range(EACH):
            server.subscribe("desk", f"p{pivot} >= 0", id=f"{name}/{pivot}/{number}")
    everything = list(server.subscriptions("desk"))
    fullest = Counter(subscription.shard for subscription in everything).most_common(1)[0][0]
    server.unsubscribe_many(each.id for each in everything if each.shard != fullest)
    return sorted(str(each.id) for each in everything if each.shard == fullest)


@contextmanager
def published_all_the_time(server: Server, expected: list[str], event: dict[str, int] = EVENT) -> Iterator[list[int]]:
    """Two publishers at work; at the end every publication had each subscription once, and every delivery was delivered once."""
    wrong: list[Any] = []
    published: list[int] = []
    over = threading.Event()

    def publish(first: int) -> None:
        number = first
        while not over.is_set():
            number += 2
            try:
                found = sorted(server.publish({**event, "n": number})[0])
            except BaseException as error:
                wrong.append(error)
                raise
            published.append(number)
            if found != expected:
                wrong.append((number, Counter(found) - Counter(expected), Counter(expected) - Counter(found)))

    threads = [threading.Thread(target=publish, args=(first,)) for first in (0, 1)]
    for thread in threads:
        thread.start()
    try:
        yield published
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    delivered: Counter[tuple[int, Any]] = Counter()
    while found := server.poll("desk", limit=5000):
        server.ack(found)
        delivered.update((each.event["n"], each.subscription_id) for each in found if each.event is not None)
    assert delivered == Counter((number, identity) for number in published for identity in expected)


def test_nothing_is_missed_or_doubled_while_subscriptions_move(server: Server) -> None:
    expected = skewed(server, "calm")
    with published_all_the_time(server, expected) as published:
        until(lambda: len(published) > 4, "publishing")
        report = server.rebalance(1.0)
        before = len(published)
        until(lambda: len(published) > before + 4, "publishing")
    assert report.moved > 0
    assert {each.shard for each in server.subscriptions("desk")} == {0, 1}
    assert not moving(server)


def test_routes_follow_the_stream_by_themselves(server: Server) -> None:
    """Filed under an attribute that events turn out to have, subscriptions move to one that few have, while every publication finds
    all of them once."""
    server.unsubscribe_many(each.id for each in list(server.subscriptions("desk")))
    expected = sorted(f"routed/{number}" for number in range(40))
    server.subscribe_many(expected, ["common >= 0 and rare >= 0"] * 40, subscriber="desk")
    before = server.stats().registry["routes"]["rerouted"]
    with published_all_the_time(server, expected, {"common": 1, "rare": 1}) as published:

        def rerouted() -> bool:
            server.publish([{"common": 1}] * 500, deliver=False)
            return bool(server.stats(hot=0).registry["routes"]["rerouted"] > before)

        until(rerouted, "routes chosen again")
        after = len(published)
        until(lambda: len(published) > after + 4, "publishing")
    assert {each.route.attributes for each in server.subscriptions("desk")} == {("rare",)}
    until(lambda: not moving(server), "settled")


@pytest.mark.parametrize("victim", ["source", "target", "registry", "coordinator-0"])
def test_whoever_dies_in_the_middle(server: Server, victim: str) -> None:
    expected = skewed(server, victim)
    source = server.subscription(expected[0]).shard
    role = {"source": f"shard-{source}", "target": f"shard-{1 - source}"}.get(victim, victim)
    with published_all_the_time(server, expected) as published:
        until(lambda: len(published) > 4, "publishing")
        ended: list[Any] = []

        def rebalance() -> None:
            try:
                ended.append(server.rebalance(1.0).moved)
            except UnavailableError as error:
                ended.append(error)

        thread = threading.Thread(target=rebalance)
        thread.start()
        until(lambda: bool(ended) or moving(server), "moving")
        kill(server, role)
        thread.join()
        before = len(published)
        until(lambda: not moving(server), "settled")
        until(lambda: len(published) > before + 4, "publishing")
        again = server.rebalance(1.0)
        assert again.after == pytest.approx(again.before) or again.moved
    assert {each.shard for each in server.subscriptions("desk")} == {0, 1}
