"""The server on this machine's cores, against one MatchIndex in this process and against a bare call of an actor.

python -m benchmarks server [--subscriptions N] [--batches B] [--data-dir FOLDER] [--sockets on|off]

Every batch's matches are compared with those of the MatchIndex. Ratios are of one run.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import ray
from rich.console import Console
from rich.table import Table

import ray_pubsub
from actors.client.server import Server
from ray_pubsub.workloads import dense

__all__ = ["main"]

BATCH = 4096
UNDER_WAY = 4
SINGLES = 300
SUBSCRIBERS = 1000
console = Console(width=130)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks server", description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=200_000)
    parser.add_argument("--batches", type=int, default=24, help=f"of {BATCH:,} events each (default: %(default)s)")
    parser.add_argument("--data-dir", help="where the durable server keeps its data (default: a temporary folder)")
    parser.add_argument(
        "--sockets", choices=["on", "off"], default="on", help="off: only through Ray, to see what the sockets gain"
    )
    options = parser.parse_args(arguments)
    without = "" if options.sockets == "on" else ", without sockets"
    table = Table(title=f"The server, {options.subscriptions:,} subscriptions like W1{without}", title_justify="left")
    for column in ("what", "figure", "must"):
        table.add_column(column, justify="left" if column == "what" else "right")
    workload = Workload(options.subscriptions, options.batches)
    with tempfile.TemporaryDirectory(dir=options.data_dir) as folder:
        for shards, least in ((1, 0.85), (2, 1.5)):
            with ray_pubsub.start(
                shards,
                Path(folder) / str(shards),
                f"bench-{shards}",
                address="local",
                sockets=options.sockets == "on",
            ) as server:
                loading(server, workload, table)
                throughput(server, workload, table, least)
                if shards == 2:
                    latency(server, workload, table)
                    subscribing(server, table)
                    memory(server, table)
                recovery(server, workload, table)
    console.print(table)


class Workload:
    """Subscriptions and batches of events like W1's, and the matches of each batch by a MatchIndex in this process."""

    def __init__(self, count: int, batches: int) -> None:
        self.dense = dense(count)
        self.predicates = self.dense.predicates()
        names = pa.array([f"subscriber-{number % SUBSCRIBERS}" for number in range(SUBSCRIBERS)])
        ids = self.predicates.column("id").to_numpy()
        owners = pa.DictionaryArray.from_arrays(pa.array(ids % SUBSCRIBERS), names).cast(pa.string())
        self.table = self.predicates.append_column("subscriber", owners)
        values = self.dense.event_value.reshape(-1, 10)
        random = np.random.default_rng(3)
        self.batches = []
        for _ in range(batches):
            rows = values[random.integers(0, len(values), BATCH)] + random.integers(-500, 500, (BATCH, 10))
            self.batches.append(pa.record_batch({f"a{place}": rows[:, place] for place in range(10)}))
        self.events = [
            dict(zip((f"a{place}" for place in range(10)), row, strict=True)) for row in values[:SINGLES].tolist()
        ]
        self.index = ray_pubsub.MatchIndex()
        self.index.add_predicates(self.predicates)
        self.expected = [self._matched(batch) for batch in self.batches]

    def _matched(self, batch: Any) -> list[int]:
        found = self.index.match_many(batch)
        return [len(found), *np.sort(found.subscription_ids).tolist()[::97]]

    def check(self, result: Any, number: int) -> None:
        assert [len(result), *np.sort(result.subscription_ids).tolist()[::97]] == self.expected[number]

    def in_process(self) -> float:
        """Events a second."""
        started = time.perf_counter()
        for batch in self.batches:
            self.index.match_many(batch)
        return BATCH * len(self.batches) / (time.perf_counter() - started)


def loading(server: Server, workload: Workload, table: Table) -> None:
    started = time.perf_counter()
    report = server.subscribe_many(workload.table)
    seconds = time.perf_counter() - started
    assert report.added == workload.dense.subscriptions and not report.rejections
    for number, batch in enumerate(workload.batches[:3]):
        workload.check(server.publish(batch, deliver=False), number)
    ray.get([shard.wait_for_merges.remote() for shard in server.shards])
    rate = f"{report.added / seconds:,.0f}/s"
    table.add_row(f"{len(server.shards)} shards: subscribe_many of intervals, durable", rate, "20,000/s")


def throughput(server: Server, workload: Workload, table: Table, least: float) -> None:
    def published() -> float:
        """Results are counted and let go, as those of the MatchIndex are."""
        started = time.perf_counter()
        with ThreadPoolExecutor(UNDER_WAY) as pool:
            counts = list(pool.map(lambda batch: len(server.publish(batch, deliver=False)), workload.batches))
        seconds = time.perf_counter() - started
        assert counts == [expected[0] for expected in workload.expected]
        return BATCH * len(counts) / seconds

    ratios, rates, alone = [], [], []
    for _ in range(7):  # one after the other, so that both see the same machine
        alone.append(workload.in_process())
        rates.append(published())
        ratios.append(rates[-1] / alone[-1])
    for number, batch in enumerate(workload.batches):
        workload.check(server.publish(batch, deliver=False), number)
    shards = f"{len(server.shards)} shard{'s' if len(server.shards) > 1 else ''}"
    ratio, low, high = statistics.median(ratios), min(ratios), max(ratios)
    table.add_row(
        f"{shards}: publish(deliver=False) ÷ MatchIndex in process, events/s",
        f"{ratio:.2f} ({low:.2f} to {high:.2f}); {statistics.median(rates):,.0f} ÷ {statistics.median(alone):,.0f}",
        f"{least}",
    )


def latency(server: Server, workload: Workload, table: Table) -> None:
    @ray.remote(num_cpus=0)
    class Bare:
        def call(self, value: Any) -> Any:
            return value

    bare = Bare.remote()  # type: ignore[attr-defined]
    seconds: dict[str, list[float]] = {"bare": [], "match": [], "deliver": []}
    for event in workload.events:
        started = time.perf_counter()
        ray.get(bare.call.remote(event))
        seconds["bare"].append(time.perf_counter() - started)
        expected = workload.index.match(event)
        for deliver in (False, True):
            started = time.perf_counter()
            found = server.publish(event, deliver=deliver)
            seconds["deliver" if deliver else "match"].append(time.perf_counter() - started)
            assert sorted(found[0]) == sorted(expected)
    ray.kill(bare)
    p50 = {name: statistics.median(each) for name, each in seconds.items()}
    for name, what in (("match", "publish(deliver=False)"), ("deliver", "publish, delivered durably")):
        figure = f"{p50[name] / p50['bare']:.2f}; {p50[name] * 1e3:.2f} ms ÷ {p50['bare'] * 1e3:.2f} ms"
        table.add_row(f"one event: {what} ÷ a bare call of an actor, p50", figure, "3")


def subscribing(server: Server, table: Table) -> None:
    texts = [f"b{place % 7} between {place} and {place + 50} and c = 'x{place % 100}'" for place in range(40_000)]
    rows = pa.table({"id": [f"t{place}" for place in range(len(texts))], "expression": texts})
    started = time.perf_counter()
    assert server.subscribe_many(rows, subscriber="texts").added == len(texts)
    table.add_row(
        "subscribe_many of texts, durable", f"{len(texts) / (time.perf_counter() - started):,.0f}/s", "20,000/s"
    )
    seconds = []
    for place in range(SINGLES):
        started = time.perf_counter()
        server.subscribe("single", f"d = {place}", id=f"single-{place}")
        seconds.append(time.perf_counter() - started)
    assert server.publish({"d": 5})[0] == ["single-5"]
    table.add_row("subscribe, durable, p50", f"{statistics.median(seconds) * 1e3:.2f} ms", "5 ms")
    with ThreadPoolExecutor(32) as pool:
        started = time.perf_counter()
        list(pool.map(lambda place: server.subscribe("crowd", f"d = {place}", id=f"crowd-{place}"), range(3000)))
    table.add_row("subscribe, durable, by 32 threads", f"{3000 / (time.perf_counter() - started):,.0f}/s", "")


def recovery(server: Server, workload: Workload, table: Table) -> None:
    seconds = []
    for number, shard in enumerate(server.shards):
        before = ray.get(shard.health.remote())
        os.kill(before["pid"], signal.SIGKILL)
        started = time.perf_counter()
        workload.check(server.publish(workload.batches[0], deliver=False), 0)
        seconds.append(time.perf_counter() - started)
        after = ray.get(shard.stats.remote())
        assert after["pid"] != before["pid"] and after["subscriptions"] == before["subscriptions"], number
    held = before["subscriptions"]
    table.add_row(
        f"kill -9 of a shard ({held:,} subscriptions) until a batch is answered", f"{max(seconds):.1f} s", "5 s"
    )


def memory(server: Server, table: Table) -> None:
    actors = {
        "registry": server.registry.health.remote(),
        **{f"shard {number}": shard.health.remote() for number, shard in enumerate(server.shards)},
        "coordinator with mailboxes": server.coordinator.health.remote(),
    }
    for who, health in actors.items():
        pid = ray.get(health)["pid"]
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        share = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        table.add_row(f"memory of the {who} (PSS)", f"{share / 1024:,.0f} MB", "")
