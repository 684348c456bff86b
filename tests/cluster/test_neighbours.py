"""On one node events go to coordinators and shards by links beside Ray: these are used, give what an index gives, and survive both."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import ray

import ray_pubsub
from actors.cluster import Joined
from actors.server import Server
from benchmarks.chaos_workload import kill

TEXTS = {number: f"{'abc'[number % 3]} between {number} and {number + 25}" for number in range(400)}
PATIENCE = 60.0


def filled(server: Server) -> ray_pubsub.MatchIndex:
    """The same subscriptions in the server and in an index."""
    index = ray_pubsub.MatchIndex()
    for number, text in TEXTS.items():
        index.add(number, text)
    table = pa.table({"id": list(TEXTS), "expression": list(TEXTS.values())})
    server.subscribe_many(table, subscriber="desk")
    return index


def event(chance: random.Random) -> dict[str, Any]:
    return {name: chance.randrange(430) for name in chance.sample("abcd", 3)}


def linked(server: Server) -> int:
    """Answers that came by links so far."""
    found: int = ray.get(server.coordinator.stats.remote())["linked"]
    return found


def publish_until_linked(server: Server, before: int) -> int:
    """Links are made aside, while publications go through Ray."""
    ends = time.monotonic() + PATIENCE
    while (found := linked(server)) <= before:
        assert time.monotonic() < ends
        server.publish({"a": 1, "b": 1, "c": 1}, deliver=False)
    return found


def test_single_events_go_by_links(cluster: Joined, tmp_path: Path) -> None:
    with ray_pubsub.start(2, tmp_path, "neighbours") as server:
        index = filled(server)
        publish_until_linked(server, 0)
        chance = random.Random(1)
        before = linked(server)
        for number in range(200):
            single = event(chance)
            found = server.publish(single, deliver=number % 2 == 0)
            assert sorted(found[0]) == sorted(index.match(single))
            few = [event(chance) for _ in range(5)]
            batch = server.publish(few, deliver=False)
            assert [sorted(batch[place]) for place in range(5)] == [sorted(index.match(each)) for each in few]
        assert linked(server) > before + 200
        assert ray.get(server.coordinator.stats.remote())["retries"] == 0


def test_a_killed_shard_is_not_noticed_by_single_events(cluster: Joined, tmp_path: Path) -> None:
    with ray_pubsub.start(2, tmp_path, "neighbours-2") as server:
        index = filled(server)
        publish_until_linked(server, 0)
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
                    publish_until_linked(server, linked(server) + 100)
            finally:
                enough.set()
            assert all(each.result() > 0 for each in running)
        stats = ray.get(server.coordinator.stats.remote())
        assert (stats["failed"], stats["deadly"]) == (0, 0)


def rows(chance: np.random.Generator, first: int, count: int) -> pa.Table:
    """Events by number, cut from a table with many more."""
    whole = {name: chance.integers(0, 430, 4 * count) for name in "ab"}
    return pa.table({"number": np.arange(first - count, first + 3 * count), **whole}).slice(count, count)


def same(found: Any, index: ray_pubsub.MatchIndex, table: pa.Table) -> bool:
    expected = index.match_many(table)
    return [sorted(each) for each in found.matches()] == [sorted(each) for each in expected]


def test_batches_go_by_links_from_several_coordinators_of_which_one_dies(cluster: Joined, tmp_path: Path) -> None:
    unbounded = {"capacity": None, "capacity_bytes": None}
    with ray_pubsub.start(2, tmp_path, "neighbours-3", coordinators=2, mailbox=unbounded) as server:
        index = filled(server)
        chance = np.random.default_rng(1)
        links = server._publisher._neighbours
        expected: dict[tuple[Any, int], int] = {}
        first = 0
        for turn in range(16):
            count = (64, 65, 300, 1000)[turn % 4]
            table = rows(chance, first, count)
            if turn in (6, 11):
                kill(server, f"coordinator-{turn % 2}")
            found = server.publish(table)
            assert same(found, index, table)
            for event, subscription in zip(
                np.repeat(table["number"].to_numpy(), found.counts()).tolist(), found.subscription_ids, strict=True
            ):
                expected[subscription, event] = 1
            first += count
        before = links.answered
        ends = time.monotonic() + PATIENCE
        while links.answered < before + 4:  # both are found again
            assert time.monotonic() < ends
            server.publish(rows(chance, 0, 100), deliver=False)
        delivered: dict[tuple[Any, int], int] = {}
        while len(delivered) < len(expected):
            polled = server.poll("desk", limit=2000, wait=PATIENCE)
            assert polled
            for each in polled:
                key = each.subscription_id, each.event["number"]
                delivered[key] = delivered.get(key, 0) + 1
            server.ack(polled)
        assert delivered == expected and not server.poll("desk")


def test_an_abandoned_or_interrupted_stream_leaves_nothing_behind(cluster: Joined) -> None:
    with ray_pubsub.start(1, name="neighbours-4", patience=PATIENCE) as server:
        index = filled(server)
        chance = np.random.default_rng(2)
        links = server._publisher._neighbours
        for turn in range(8):
            tables = [rows(chance, 0, 200) for _ in range(4)]
            stream = server.publish_stream(tables, deliver=False, under_way=4)
            assert same(next(stream), index, tables[0])
            if turn % 2:
                stream.close()  # type: ignore[attr-defined]
            else:
                assert all(same(found, index, table) for found, table in zip(stream, tables[1:], strict=True))
        assert all(len(each.idle) == each.links for each in links._others.values())


def test_a_server_may_be_given_to_a_task(cluster: Joined) -> None:
    @ray.remote(num_cpus=0)
    def publishing(server: Server) -> int:
        return sum(len(server.publish({"a": 200}, deliver=False)) for _ in range(10))

    with ray_pubsub.start(1, name="neighbours-5") as server:
        index = filled(server)
        assert ray.get(publishing.remote(server)) == 10 * len(index.match({"a": 200}))
