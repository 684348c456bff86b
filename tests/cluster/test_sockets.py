"""On one node events go to coordinators and shards over Unix sockets: these are used, give what an index gives, and their failure is not
noticed."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import ray

import ray_pubsub
from actors.client.server import Server
from actors.cluster.joining import Joined
from actors.transport.sockets.socket_folder import check_socket
from ray_pubsub import MatchIndex
from tests.chaos.processes import kill

TEXTS = {number: f"{'abc'[number % 3]} between {number} and {number + 25}" for number in range(400)}
FEW = {number: TEXTS[number] for number in range(0, 400, 13)}
"""For a server whose engine looks at one after the other."""
PATIENCE = 60.0


@pytest.fixture(scope="module")
def filled_server(cluster: Joined, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, MatchIndex]]:
    """One server for most tests here, with two coordinators; those that break something come last."""
    settings: dict[str, Any] = {"coordinators": 2, "mailbox": {"capacity": None, "capacity_bytes": None}}
    with ray_pubsub.start(2, tmp_path_factory.mktemp("sockets"), "sockets", patience=PATIENCE, **settings) as server:
        yield server, filled(server)


def filled(server: Server, texts: Mapping[int, str] = TEXTS) -> MatchIndex:
    """The same subscriptions in the server and in an index."""
    index = MatchIndex()
    for number, text in texts.items():
        index.add(number, text)
    table = pa.table({"id": list(texts), "expression": list(texts.values())})
    server.subscribe_many(table, subscriber="desk")
    return index


def event(chance: random.Random) -> dict[str, Any]:
    return {name: chance.randrange(430) for name in chance.sample("abcd", 3)}


def socket_replies(server: Server) -> int:
    """Replies of shards that came over sockets so far."""
    return sum(replies_by_coordinator(server))


def replies_by_coordinator(server: Server) -> list[int]:
    return counted(server, "socket_replies")


def counted(server: Server, counter: str) -> list[int]:
    """By each coordinator."""
    return [each[counter] for each in ray.get([each.stats.remote() for each in server.coordinators])]


def publish_until_connected(server: Server, before: int) -> int:
    """Connections are made in the background, while publications go through Ray."""
    ends = time.monotonic() + PATIENCE
    while (found := socket_replies(server)) <= before or not all(replies_by_coordinator(server)):
        assert time.monotonic() < ends
        server.publish({"a": 1, "b": 1, "c": 1}, deliver=False)
    return found


def test_single_events_go_over_sockets(filled_server: tuple[Server, MatchIndex]) -> None:
    server, index = filled_server
    publish_until_connected(server, 0)
    chance = random.Random(1)
    before = socket_replies(server)
    for number in range(200):
        single = event(chance)
        found = server.publish(single, deliver=number % 2 == 0)
        assert sorted(found[0]) == sorted(index.match(single))
        few = [event(chance) for _ in range(5)]
        batch = server.publish(few, deliver=False)
        assert [sorted(batch[place]) for place in range(5)] == [sorted(index.match(each)) for each in few]
    assert socket_replies(server) > before + 200
    assert counted(server, "retries") == [0, 0]


def rows(chance: np.random.Generator, first: int, count: int) -> pa.Table:
    """Events by number, cut from a table with many more."""
    whole = {name: chance.integers(0, 430, 4 * count) for name in "ab"}
    return pa.table({"number": np.arange(first - count, first + 3 * count), **whole}).slice(count, count)


def same(found: Any, index: MatchIndex, table: pa.Table) -> bool:
    expected = index.match_many(table)
    return [sorted(each) for each in found.matches()] == [sorted(each) for each in expected]


def test_an_abandoned_or_interrupted_stream_leaves_nothing_behind(filled_server: tuple[Server, MatchIndex]) -> None:
    server, index = filled_server
    chance = np.random.default_rng(2)
    pool = server._publisher._client.pool
    for turn in range(8):
        tables = [rows(chance, 0, 200) for _ in range(4)]
        stream = server.publish_stream(tables, deliver=False, max_in_flight=4)
        assert same(next(stream), index, tables[0])
        if turn % 2:
            stream.close()  # type: ignore[attr-defined]
        else:
            assert all(same(found, index, table) for found, table in zip(stream, tables[1:], strict=True))
    assert all(len(each.idle) == each.connections for each in pool._peers.values())


def test_a_server_may_be_given_to_a_task(filled_server: tuple[Server, MatchIndex]) -> None:
    @ray.remote(num_cpus=0)
    def publishing(server: Server) -> int:
        return sum(len(server.publish({"a": 200}, deliver=False)) for _ in range(10))

    server, index = filled_server
    assert ray.get(publishing.remote(server)) == 10 * len(index.match({"a": 200}))


def test_without_sockets_everything_goes_through_ray(second: Server) -> None:
    server, index = second, filled(second, FEW)
    assert ray.get([each.socket_address.remote() for each in (*server.shards, *server.coordinators)]) == [None] * 3
    chance, singles = np.random.default_rng(3), random.Random(3)
    for _ in range(10):
        single = event(singles)
        assert sorted(server.publish(single, deliver=False)[0]) == sorted(index.match(single))
    for count in (64, 65, 3000):
        table = rows(chance, 0, count)
        assert same(server.publish(table, deliver=False), index, table)
    assert (socket_replies(server), server._publisher._client.pool.answered) == (0, 0)
    assert counted(server, "retries") == [0, 0]
    server.unsubscribe_many(list(FEW))


def test_batches_go_over_sockets_to_several_coordinators_of_which_one_dies(
    filled_server: tuple[Server, MatchIndex],
) -> None:
    server, index = filled_server
    while polled := server.poll("desk", limit=10_000):  # of the tests above
        server.ack(polled)
    chance = np.random.default_rng(1)
    pool = server._publisher._client.pool
    expected: dict[tuple[Any, int], int] = {}
    first = 0
    for turn in range(16):
        count = (64, 65, 300, 1000)[turn % 4]
        table = rows(chance, first, count)
        if turn in (6, 11):
            kill(server, f"coordinator-{turn % 2}")
        found = server.publish(table)
        assert same(found, index, table)
        for number, subscription in zip(
            np.repeat(table["number"].to_numpy(), found.counts()).tolist(), found.subscription_ids, strict=True
        ):
            expected[subscription, number] = 1
        first += count
    before = pool.answered
    ends = time.monotonic() + PATIENCE
    while pool.answered < before + 4:  # both are found again
        assert time.monotonic() < ends
        server.publish(rows(chance, 0, 100), deliver=False)
    delivered: dict[tuple[Any, int], int] = {}
    while len(delivered) < len(expected):
        polled = server.poll("desk", limit=10_000, wait=PATIENCE)
        assert polled
        for each in polled:
            assert each.event is not None
            key = each.subscription_id, each.event["number"]
            delivered[key] = delivered.get(key, 0) + 1
        server.ack(polled)
    assert delivered == expected and not server.poll("desk")


def test_a_killed_shard_is_not_noticed_by_single_events(filled_server: tuple[Server, MatchIndex]) -> None:
    server, index = filled_server
    publish_until_connected(server, 0)
    enough = threading.Event()

    def publishing(seed: int) -> int:
        chance, count = random.Random(seed), 0
        while not enough.is_set():
            single = event(chance)
            assert sorted(server.publish(single, deliver=False)[0]) == sorted(index.match(single))
            count += 1
        return count

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(publishing, seed) for seed in range(4)]
        try:
            for shard in ("shard-0", "shard-1", "shard-0"):
                kill(server, shard)
                server.publish([{"a": 1, "b": 1, "c": 1}] * 100, deliver=False)  # through Ray: all are there again
                publish_until_connected(server, socket_replies(server) + 100)
        finally:
            enough.set()
        assert all(each.result() > 0 for each in running)
    assert (counted(server, "failed"), counted(server, "deadly")) == ([0, 0], [0, 0])


def test_the_sockets_of_a_server_are_this_users_alone_and_are_removed_with_it(
    filled_server: tuple[Server, MatchIndex],
) -> None:
    server, _ = filled_server
    addresses = ray.get([each.socket_address.remote() for each in (*server.shards, *server.coordinators)])
    assert [address.role for address in addresses] == ["shard-0", "shard-1", "coordinator-0", "coordinator-1"]
    paths = [Path(address.path) for address in addresses]
    for path in paths:
        check_socket(path)
        assert "ray/session" not in str(path)  # Ray's own folder is writable for all
    server.publish({"a": 1})
    ray.get([each.close_socket.remote() for each in (*server.shards, *server.coordinators)])
    assert not any(path.parent.exists() for path in paths)
    server.publish({"a": 1})
