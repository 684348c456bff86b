"""Random kills of a server's processes under load: how long until it answers again, and an account of everything that was acknowledged."""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import ray_pubsub
from actors.server import Server
from benchmarks.chaos_account import Account
from benchmarks.chaos_workload import Workload, kill, roles
from ray_pubsub.errors import RayPubSubError

__all__ = ["main"]

PAUSES = (0.0, 0.5, 3.0)
"""Seconds between two kills: the next may come before the last is got over."""


def load(server: Server, count: int) -> None:
    """Subscriptions that match nothing of the workload, so that processes have something to load."""
    chance = np.random.default_rng(1)
    for start in range(0, count, 100_000):
        size = min(100_000, count - start)
        low = chance.integers(0, 10**6, size)
        table = pa.table(
            {
                "id": [f"filling/{start + place}" for place in range(size)] * 2,
                "attribute": ["price"] * size + ["weight"] * size,
                "low": np.concatenate([low, low]),
                "high": np.concatenate([low + 100, low + 5000]),
            }
        )
        server.subscribe_many(table, subscriber="filling")


def seconds_until(call: Callable[[], object]) -> float:
    """How long until a call succeeds."""
    begun = time.monotonic()
    while True:
        try:
            call()
            return time.monotonic() - begun
        except RayPubSubError:
            time.sleep(0.01)


def recovery(server: Server, victims: tuple[str, ...]) -> tuple[float, float]:
    """Seconds from a kill until a publication and a subscription have succeeded; each in a thread of its own."""
    found = {}

    def measure(name: str, call: Callable[[], object]) -> threading.Thread:
        thread = threading.Thread(target=lambda: found.update({name: seconds_until(call)}))
        thread.start()
        return thread

    probe = {"price": 5, "weight": 5, "a": 1}
    kill(server, *victims)
    threads = [
        measure("publish", lambda: server.publish(probe, deliver=False)),
        measure("subscribe", lambda: server.subscribe("filling", "price < 0", id="probe")),
    ]
    for thread in threads:
        thread.join()
    return found["publish"], found["subscribe"]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--coordinators", type=int, default=1)
    parser.add_argument(
        "--subscriptions", type=int, default=0, help="to be loaded first, beside those that come and go"
    )
    parser.add_argument("--lease", type=float, default=5.0)
    parser.add_argument("--rebalance", action="store_true", help="between kills too")
    given = parser.parse_args(arguments)
    console, chance = Console(), random.Random(given.seed)
    times: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    with (
        tempfile.TemporaryDirectory() as folder,
        ray_pubsub.start(
            given.shards,
            folder,
            "chaos",
            address="local",
            coordinators=given.coordinators,
            lease=given.lease,
            mailbox={
                "capacity": None,
                "capacity_bytes": None,
            },  # nothing is rejected, so every delivery is accounted for
        ) as server,
    ):
        load(server, given.subscriptions)
        workload = Workload(server, Account(), given.seed)
        names = list(roles(server))
        with workload.running():
            workload.progressed()
            ends = time.monotonic() + given.seconds
            while time.monotonic() < ends:
                victims = tuple(chance.sample(names, chance.choice((1, 1, 1, 2, 3))))
                times[" + ".join(sorted(each.rpartition("-")[0] or each for each in victims))].append(
                    recovery(server, victims)
                )
                if given.rebalance and chance.random() < 0.5:
                    try:
                        server.rebalance(1.0)
                    except RayPubSubError as error:
                        workload.account.erred("rebalance", error)
                time.sleep(chance.choice(PAUSES))
            workload.progressed()
        problems = workload.check()
    table = Table(
        "killed", "times", "publishes again after", "subscribes again after", title="seconds, median and most"
    )
    for name, measured in sorted(times.items()):
        columns = [f"{np.median(each):.1f}  {max(each):.1f}" for each in zip(*measured, strict=True)]
        table.add_row(name, str(len(measured)), *columns)
    console.print(table)
    account = workload.account
    changes = sum(map(len, account.changes.values()))
    console.print(
        f"{len(account.publications):,} publications, {changes:,} changes, {len(account.acknowledged):,} deliveries acknowledged; "
        f"errors told: {dict(account.errors) or 'none'}; problems: {len(problems)}"
    )
    if problems:
        raise SystemExit("\n".join(problems[:20]))
