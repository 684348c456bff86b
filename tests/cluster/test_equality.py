"""A server gives what one index and one set of rules give, while several processes change it."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import ray_pubsub
from actors.client.server import Server
from tests.cluster.joining_programs import begin, finish
from tests.cluster.random_clients import LEVELS, Client, event, interval_table

STEPS = 25
ENGINES = ("auto", "dexin", "gem", "rein", "opindex", "scan")
PROGRAM = f"import runpy; runpy.run_path({str(Path(__file__).with_name('random_clients.py'))!r}, run_name='__main__')"


@pytest.fixture(scope="module")
def clients(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Client]]:
    """Two threads of this process and another process, all at once. Each has compared all its publications."""
    elsewhere = begin(PROGRAM, "shared", "cy", 9200, 3, STEPS, folder=tmp_path_factory.mktemp("client"))
    here = [Client("cw", 9000, 1), Client("cx", 9100, 2)]
    try:
        with ThreadPoolExecutor(2) as pool:
            for running in [pool.submit(client.run, server, STEPS) for client in here]:
                running.result()
    finally:
        (told,) = finish(elsewhere)
    known = {name: dict(told[name]) for name in ("texts", "tables")}
    rules = {identity: tuple(rule) for identity, rule in told["rules"]}
    delivered = [tuple(each) for each in told["delivered"]]
    everybody = [*here, Client("cy", 9200, 3, known["texts"], known["tables"], rules, delivered)]
    yield everybody
    for client in everybody:  # some of it would match the events of other tests
        server.unsubscribe_many([*client.texts, *client.tables])
        for rule in client.rules:
            server.unprioritize(rule)


@pytest.fixture(scope="module")
def events() -> list[dict[str, Any]]:
    chance = random.Random(4)
    return [
        {key: value for name in chance.sample(("cw", "cx", "cy"), 2) for key, value in event(chance, name).items()}
        for _ in range(300)
    ]


def of_clients(ids: Any, clients: list[Client]) -> list[Any]:
    return sorted((i for client in clients for i in client.own(ids)), key=str)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_server_matches_as_one_index_does(
    server: Server, clients: list[Client], events: list[dict[str, Any]], engine: str
) -> None:
    index = ray_pubsub.MatchIndex(engine=engine)
    for client in clients:
        index.add_many(list(client.texts), list(client.texts.values()))
        for rows in client.tables.values():
            index.add_predicates(interval_table(rows))
    expected = index.match_many(events)
    assert len(expected) > 1000
    result = server.publish(events, deliver=False)
    assert [of_clients(ids, clients) for ids in map(result.__getitem__, range(len(events)))] == [
        sorted(expected[place], key=str) for place in range(len(events))
    ]


def test_the_server_prioritizes_as_one_set_of_rules_does(
    server: Server, clients: list[Client], events: list[dict[str, Any]]
) -> None:
    rules = ray_pubsub.PriorityRules(levels=list(LEVELS))
    for client in clients:
        for identity, (level, text) in client.rules.items():
            rules.add(identity, level, text)
    found = server.publish(events, deliver=False).priorities
    assert list(found) == rules.priorities(events)
    assert len(set(found)) > 1


def test_what_is_kept_is_what_was_acknowledged(server: Server, clients: list[Client]) -> None:
    for client in clients:
        kept = list(server.subscriptions(client.name, page=7))
        assert {each.id: each.expression for each in kept if each.kind == "text"} == client.texts
        assert {each.id for each in kept if each.kind == "intervals"} == set(client.tables)
        assert [each.number for each in kept] == sorted(each.number for each in kept)
    mine = {identity: rule for client in clients for identity, rule in client.rules.items()}
    assert {rule.id: (rule.level, rule.expression) for rule in server.rules() if rule.id in mine} == mine


def test_every_match_was_delivered_once(server: Server, clients: list[Client]) -> None:
    for client in clients:
        found: Counter[tuple[Any, Any, str]] = Counter()
        while deliveries := server.poll(client.name, limit=1000):
            assert server.ack(deliveries).accepted == len(deliveries)
            own = (each for each in deliveries if each.event_id.startswith(client.name))
            found.update((each.event_id, each.subscription_id, each.priority) for each in own)
        assert found == Counter(client.delivered)


def test_moving_subscriptions_changes_nothing(
    server: Server, clients: list[Client], events: list[dict[str, Any]]
) -> None:
    before = server.publish(events, deliver=False)
    report = server.rebalance(1.0)
    after = server.publish(events, deliver=False)
    assert report.moved > 0
    assert [sorted(after[place], key=str) for place in range(len(events))] == [
        sorted(before[place], key=str) for place in range(len(events))
    ]
    sizes = server.stats().registry["sizes"]
    assert sizes == [shard["subscriptions"] for shard in server.stats().shards]


def test_new_subscribers_come_while_others_publish(server: Server) -> None:
    """A shard may know of one before the coordinator does; a publication then waits for the name."""
    stop = threading.Event()
    seen: list[list[str]] = []

    def published() -> list[str]:
        return sorted(name for name in server.publish({"newcomers.x": 1}).subscribers if name.startswith("newcomer"))

    def publish() -> None:
        while not stop.is_set():
            seen.append(published())

    with ThreadPoolExecutor(2) as pool:
        publishing = [pool.submit(publish) for _ in range(2)]
        try:
            for number in range(30):
                server.subscribe(f"newcomer-{number:02}", "newcomers.x = 1", id=f"newcomer-{number}")
        finally:
            stop.set()
        for each in publishing:
            each.result()
    everybody = [f"newcomer-{number:02}" for number in range(30)]
    assert all(names == everybody[: len(names)] for names in seen)
    assert published() == everybody
    delivered = sum(len(polled) for name in everybody if (polled := server.poll(name, limit=10_000)))
    assert delivered == sum(map(len, seen)) + len(everybody)
