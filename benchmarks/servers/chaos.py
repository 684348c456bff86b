"""A server under load while its processes are killed, stopped and crash as they write, and its disk fails: an account of everything that it
acknowledged, and the time until it answers again.

A run takes `--seconds` for each of `--seeds` seeds, one after the other on one server. A seed that fails is repeated by `--seed` alone.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import ray_pubsub
from actors.client.server import Server
from ray_pubsub.errors import RayPubSubError, UnknownSubscriberWarning
from ray_pubsub.failpoints import VARIABLE
from tests.chaos.account import Account
from tests.chaos.strikes import Strikes
from tests.chaos.workload import Workload

__all__ = ["main"]

PAUSES = (0.0, 0.5, 3.0)
"""Seconds between two strikes: the next may come before the server has recovered from the last."""
PATIENCE = 120.0


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
    """How long until a call succeeds. Raises what it failed with last, after a long time."""
    begun = time.monotonic()
    while True:
        try:
            call()
            return time.monotonic() - begun
        except RayPubSubError:
            if time.monotonic() - begun > PATIENCE:
                raise
            time.sleep(0.01)


def recovery(server: Server) -> tuple[float, float]:
    """Seconds until a publication and a subscription have succeeded, each measured in a thread of its own."""
    found: dict[str, float] = {}

    def measure(name: str, call: Callable[[], object]) -> threading.Thread:
        thread = threading.Thread(target=lambda: found.update({name: seconds_until(call)}))
        thread.start()
        return thread

    probe = {"price": 5, "weight": 5, "a": 1}
    threads = [
        measure("publish", lambda: server.publish(probe, deliver=False)),
        measure("subscribe", lambda: server.subscribe("filling", "price < 0", id="probe")),
    ]
    for thread in threads:
        thread.join()
    return found["publish"], found["subscribe"]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of each seed (default: %(default)g)")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--coordinators", type=int, default=1)
    parser.add_argument(
        "--subscriptions", type=int, default=0, help="to be loaded first, beside those that come and go"
    )
    parser.add_argument("--lease", type=float, default=1.0)
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore", UnknownSubscriberWarning)  # consumers begin before the first subscription
    times: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    totals: defaultdict[str, int] = defaultdict(int)
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as folder, Progress() as progress:
        task = progress.add_task("seeds", total=given.seeds)
        for seed in range(given.seed, given.seed + given.seeds):
            found = one_seed(given, seed, Path(folder) / str(seed), times, totals)
            problems += [f"--seed {seed}: {problem}" for problem in found]
            progress.update(task, advance=1, description=f"{seed + 1 - given.seed} seeds, {len(problems)} problems")
    _show(times, totals, problems)
    if problems:
        raise SystemExit("\n".join(problems[:20]))


def one_seed(
    given: argparse.Namespace,
    seed: int,
    folder: Path,
    times: defaultdict[str, list[tuple[float, float]]],
    totals: defaultdict[str, int],
) -> list[str]:
    """Everything that was wrong."""
    chance = random.Random(seed)
    folder.mkdir()
    failpoints = folder / "failpoints"
    os.environ[VARIABLE] = str(failpoints)

    server = ray_pubsub.start(
        given.shards, folder / "data", "chaos", address="local", coordinators=given.coordinators, lease=given.lease,
        mailbox={"capacity": None, "capacity_bytes": None},  # nothing is rejected, so every delivery is accounted for
    )  # fmt: skip
    try:
        load(server, given.subscriptions)
        workload = Workload(server, Account(), seed)
        strikes = Strikes(server, failpoints, chance)
        with workload.running():
            workload.progressed()
            ends = time.monotonic() + given.seconds
            while time.monotonic() < ends:
                times[strikes.strike()].append(recovery(server))
                time.sleep(chance.choice(PAUSES))
            workload.progressed()
        problems = workload.check()
    finally:
        server.stop()
    account = workload.account
    totals["publications"] += len(account.publications)
    totals["changes"] += sum(map(len, account.changes.values()))
    totals["deliveries acknowledged"] += len(account.acknowledged)
    totals["errors reported"] += sum(account.errors.values())
    return problems


def _show(
    times: defaultdict[str, list[tuple[float, float]]], totals: defaultdict[str, int], problems: list[str]
) -> None:
    console = Console()
    table = Table(
        "strike", "times", "publishes again after", "subscribes again after", title="seconds, median and most"
    )
    for name, measured in sorted(times.items()):
        columns = [f"{np.median(each):.1f}  {max(each):.1f}" for each in zip(*measured, strict=True)]
        table.add_row(name, str(len(measured)), *columns)
    console.print(table)
    console.print(", ".join(f"{count:,} {name}" for name, count in totals.items()) + f"; problems: {len(problems)}")
