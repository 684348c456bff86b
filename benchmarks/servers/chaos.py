"""A server under load while its processes are killed, stopped and crash as they write, and its disk fails: an account of everything that it
acknowledged, and the time until it answers again.

A run takes `--seconds` for each of `--seeds` seeds, one after the other, `--together` of them on one server; then the server is stopped,
started again with its folder and another number of shards and coordinators, and must have what the last seed left. A seed that fails is
repeated by `--seed` alone. 1,000 seeds of a strike or two: `--seconds 1 --seeds 1000`.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import ray_pubsub
from actors.client.server import Server
from ray_pubsub.errors import ClusterError, RayPubSubError, UnavailableError, UnknownSubscriberWarning
from ray_pubsub.failpoints import VARIABLE
from tests.chaos.account import Account
from tests.chaos.strikes import Strikes
from tests.chaos.workload import Workload

__all__ = ["main"]

PAUSES = (0.0, 0.5, 2.0)
"""Seconds between two strikes: the next may come before the server has recovered from the last."""
PATIENCE = 120.0
VISIBILITY = 2.0
"""Seconds until a delivery comes again that was in flight at a consumer whose poll failed. Some processes are stopped for longer, so that
consumers are overtaken by their own deliveries too."""
BREATH = 0.01
"""Seconds between two requests of one thread: a process that starts again needs the CPU more than the load does."""


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
    probe = {"price": 5, "weight": 5, "a": 1}
    with ThreadPoolExecutor(2) as threads:
        published = threads.submit(seconds_until, lambda: server.publish(probe, deliver=False))
        subscribed = threads.submit(seconds_until, lambda: server.subscribe("filling", "price < 0", id="probe"))
        return published.result(), subscribed.result()


@dataclass(slots=True)
class Findings:
    """Of all seeds together."""

    times: defaultdict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    """By strike: seconds until publications and changes succeed again, of the strikes whose end was waited for."""
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {name}" for name, count in self.counts.items())
        return f"{counts}; problems: {len(self.problems)}"


class Servers:
    """One after the other, each with the folder of the one before it, unless that had a problem: the next seeds would report it again."""

    def __init__(self, given: argparse.Namespace, folder: Path, findings: Findings) -> None:
        self._given, self._folder, self._findings = given, folder, findings
        self._server: Server | None = None
        self._last: Workload | None = None
        self._data = 0

    def server_for(self, seed: int) -> Server:
        group, place = divmod(seed, self._given.together)
        if self._server is not None and place:
            self._remove_last()
            return self._server
        self.stop()
        chance = random.Random(f"server {group}")
        shards, coordinators = chance.choice((1, 2, 2, 3)), chance.choice((1, 1, 2))
        self._server = server = self._started(
            self._given.shards or shards, self._given.coordinators or coordinators, self._folder / str(self._data)
        )
        if self._last is None:
            load(server, self._given.subscriptions)
        else:
            self._last.server = server
            problems = self._last.check_at_rest()
            self._findings.problems += [f"restarted after --seed {seed - 1}: {problem}" for problem in problems]
            self._findings.counts["restarts"] += 1
            self._remove_last()
        return server

    def _started(self, shards: int, coordinators: int, folder: Path) -> Server:
        ends = time.monotonic() + PATIENCE
        while True:
            try:
                return ray_pubsub.start(
                    shards, folder, "chaos", address="local", coordinators=coordinators, lease=self._given.lease,
                    # Nothing is rejected, so every delivery is accounted for.
                    mailbox={"capacity": None, "capacity_bytes": None, "visibility_timeout": VISIBILITY},
                )  # fmt: skip
            except (ClusterError, UnavailableError):  # too late, on a machine that is short of CPU
                if time.monotonic() > ends:
                    raise

    def _remove_last(self) -> None:
        if self._last is not None:
            self._last.remove()
            self._last = None

    def run(self, seed: int) -> None:
        server = self.server_for(seed)
        workload = Workload(server, Account(), seed, generation=seed, breath=BREATH)
        chance = random.Random(seed)
        try:
            _strike(self._given.seconds, server, workload, self._folder / "failpoints", chance, self._findings)
            problems = workload.check()
        except (RayPubSubError, AssertionError) as error:  # no progress, or a process that has not come back
            problems = [f"{error} (at {traceback.extract_tb(error.__traceback__)[-1].name})"]
        self._findings.problems += [f"--seed {seed}: {problem}" for problem in problems]
        self._last = workload
        if problems:
            self.stop()
            self._last, self._data = None, self._data + 1

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None


def _strike(
    seconds: float, server: Server, workload: Workload, failpoints: Path, chance: random.Random, findings: Findings
) -> None:
    strikes, counts = Strikes(server, failpoints, chance), findings.counts
    with workload.running():
        workload.progressed()
        ends = time.monotonic() + seconds
        while True:
            name = strikes.strike()
            counts["strikes"] += 1
            over = time.monotonic() > ends
            if over or chance.random() < 0.5:  # otherwise the next strike may hit a server that has not recovered
                findings.times[name].append(recovery(server))
            if over:
                break
            time.sleep(chance.choice(PAUSES))
        workload.progressed()
    account = workload.account
    counts["seeds"] += 1
    counts["publications"] += len(account.publications)
    counts["changes"] += sum(map(len, account.changes.values()))
    counts["deliveries acknowledged"] += len(account.acknowledged)
    counts["errors reported"] += sum(account.errors.values())


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of each seed, at least a strike (%(default)g)")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--together", type=int, default=25, help="seeds between two restarts (default: %(default)d)")
    parser.add_argument("--shards", type=int, help="1 to 3 if not given, by the seed")
    parser.add_argument("--coordinators", type=int, help="1 or 2 if not given, by the seed")
    parser.add_argument(
        "--subscriptions", type=int, default=0, help="to be loaded first, beside those that come and go"
    )
    parser.add_argument("--lease", type=float, default=1.0)
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore", UnknownSubscriberWarning)  # consumers begin before the first subscription
    findings = Findings()
    with tempfile.TemporaryDirectory() as folder, Progress() as progress:
        task = progress.add_task("seeds", total=given.seeds)
        os.environ[VARIABLE] = str(Path(folder) / "failpoints")
        # Ray would start its workers at a low priority, below the load that waits for them.
        os.environ.setdefault("RAY_worker_niceness", "0")
        servers = Servers(given, Path(folder), findings)
        try:
            for seed in range(given.seed, given.seed + given.seeds):
                known = len(findings.problems)
                servers.run(seed)
                for problem in findings.problems[known:][:5]:
                    progress.console.print(problem)
                progress.update(task, advance=1, description=f"{seed}: {len(findings.problems)} problems")
                if (seed + 1) % 10 == 0:
                    progress.console.print(str(findings))
        finally:
            servers.stop()
    _show(findings)
    if findings.problems:
        raise SystemExit("\n".join(findings.problems[:20]))


def _show(findings: Findings) -> None:
    console = Console()
    table = Table(
        "strike", "times", "publishes again after", "subscribes again after", title="seconds, median and most"
    )
    for name, measured in sorted(findings.times.items()):
        columns = [f"{np.median(each):.1f}  {max(each):.1f}" for each in zip(*measured, strict=True)]
        table.add_row(name, str(len(measured)), *columns)
    console.print(table)
    console.print(str(findings))
