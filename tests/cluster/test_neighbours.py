"""Single events go to shards of the same node by links beside Ray: these are used, give what an index gives, and survive their shards."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

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
