"""A server that ends, by itself or by force, and is started from its data_dir again: everything is as it was."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import ray

import ray_pubsub
from actors.client.server import Server
from actors.cluster.joining import ADDRESS_VARIABLE, Joined
from ray_pubsub.errors import StoreError
from tests.chaos.processes import roles
from tests.cluster.joining_programs import begin

SETTINGS: dict[str, Any] = {"lease": 1.0, "mailbox": {"delivery_limit": 1}}
TEXTS = {f"t{number}": f"a >= {number} and b = 'x{number % 3}'" for number in range(90)}
INTERVALS = {1000 + number: (number, number + 7) for number in range(90)}
RULES = {"r1": ("high", "a > 40"), "r2": ("critical", "b = 'x1' and a < 10"), "r3": ("normal", "true")}
EVENTS = [{"a": number % 97, "b": f"x{number % 4}", "n": number} for number in range(60)]


def fill(server: Server) -> None:
    """Subscriptions of both kinds, some replaced and removed; rules; deliveries acknowledged, waiting and dead."""
    server.subscribe_many(pa.table({"id": list(TEXTS), "expression": ["false"] * len(TEXTS)}), subscriber="texts")
    server.subscribe_many(
        pa.table({"id": [*TEXTS, "gone"], "expression": [*TEXTS.values(), "true"]}), subscriber="texts"
    )
    low, high = zip(*INTERVALS.values(), strict=True)
    table = pa.table({"id": list(INTERVALS), "attribute": ["a"] * len(INTERVALS), "low": low, "high": high})
    server.subscribe_many(table, subscriber="intervals")
    server.unsubscribe("gone")
    for identity, (level, expression) in {**RULES, "gone": ("critical", "true")}.items():
        server.prioritize(identity, level, expression)
    server.unprioritize("gone")
    server.publish(EVENTS, event_id="n")
    acknowledged = [each for each in server.poll("texts", limit=10**6) if each.event_id < 20]
    server.ack(acknowledged)
    server.nack([each for each in server.poll("intervals", limit=10**6) if each.event_id < 10], reason="broken")


def check(server: Server) -> None:
    """That all of it is there, and nothing else."""
    index = ray_pubsub.MatchIndex()
    index.add_many(list(TEXTS), list(TEXTS.values()))
    low, high = zip(*INTERVALS.values(), strict=True)
    index.add_predicates(
        pa.table({"id": list(INTERVALS), "attribute": ["a"] * len(INTERVALS), "low": low, "high": high})
    )
    rules = ray_pubsub.PriorityRules(levels=server.settings.levels)
    for identity, (level, expression) in RULES.items():
        rules.add(identity, level, expression)
    # Published again under their ids: matched again, and not delivered a second time.
    again, expected = server.publish(EVENTS, event_id="n"), index.match_many(EVENTS)
    for place in range(len(EVENTS)):
        assert sorted(map(str, again[place])) == sorted(map(str, expected[place]))
    assert again.priorities.tolist() == list(rules.priorities(EVENTS))
    assert (again.deliveries.delivered, again.deliveries.duplicates) == (0, len(expected.subscription_ids))
    assert {each.id for each in server.subscriptions("texts")} == set(TEXTS)
    assert {each.id for each in server.rules()} == set(RULES)

    def pairs(subscriber: str, chosen: range) -> set[tuple[Any, Any]]:
        own = TEXTS if subscriber == "texts" else INTERVALS
        return {(number, each) for number in chosen for each in expected[number] if each in own}

    waiting = server.poll("texts", limit=10**6)
    assert sorted((each.event_id, each.subscription_id) for each in waiting) == sorted(pairs("texts", range(20, 60)))
    server.release(waiting)
    waiting = server.poll("intervals", limit=10**6)
    assert {(each.event_id, each.subscription_id) for each in waiting} == pairs("intervals", range(10, 60))
    server.release(waiting)
    dead = server.dead_letters("intervals")
    assert {(each.event_id, each.subscription_id) for each in dead} == pairs("intervals", range(10))


def end_by_force(server: Server) -> None:
    for handle in roles(server).values():
        ray.kill(handle, no_restart=True)


def test_started_again_with_more_shards_and_with_fewer(cluster: Joined, tmp_path: Path) -> None:
    server = ray_pubsub.start(1, tmp_path, "again", **SETTINGS)
    fill(server)
    server.stop()
    server = ray_pubsub.start(2, tmp_path, "again")
    assert len(server.shards) == 2
    check(server)
    for number in range(30):  # so that the second has something
        server.subscribe("more", f"z{number} = 1", id=f"z{number}")
    assert 1 in {each.shard for each in server.subscriptions("more")}
    with pytest.raises(StoreError, match="in use by the server again"):
        ray_pubsub.start(1, tmp_path, "another")
    end_by_force(server)
    server = ray_pubsub.start(1, tmp_path, "again")
    try:
        assert server.settings.lease == 1.0
        check(server)
        assert server.publish({f"z{number}": 1 for number in range(30)}, deliver=False)[0] == [
            f"z{number}" for number in range(30)
        ]
    finally:
        server.stop()


PROGRAM = f"""
import json, os, runpy, sys
tests = runpy.run_path({str(Path(__file__))!r})
server = tests["ray_pubsub"].start(1, json.loads(sys.argv[1])[0], "elsewhere", address="local", **tests["SETTINGS"])
tests["fill"](server)
print("filled", flush=True)
sys.stdin.read()
"""


def test_a_cluster_that_dies_with_everything_in_it(cluster: Joined, tmp_path: Path) -> None:
    """The processes of a whole Ray cluster are killed at once; another cluster takes the data over."""
    data = tmp_path / "data"
    program = begin(
        PROGRAM, str(data), folder=tmp_path, PYTHONPATH=str(Path(__file__).parents[3]), **{ADDRESS_VARIABLE: None}
    )
    assert program.stdout is not None
    told = program.stdout.readline()
    family = descendants(program.pid)
    for pid in [program.pid, *family]:
        os.kill(pid, signal.SIGKILL)
    program.communicate()
    assert told == "filled\n"
    assert len(family) > 5
    with ray_pubsub.start(data_dir=data, name="elsewhere") as server:
        check(server)


def descendants(pid: int) -> list[int]:
    """All processes that a process has started, and those that these have."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        own = children.get(waiting.pop(), [])
        found += own
        waiting += own
    return found
