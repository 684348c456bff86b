"""Urgent batches while others overload the server: their latency beside that on an idle server.

python -m benchmarks urgency [--subscriptions N] [--publications P] [--publishers K]

Other processes publish batches of the lowest level without a pause, three times as many at once as the server admits of them. This process
publishes urgent batches of the same size, one after the other. Some of them, one in twenty, have their matches compared with those of a
MatchIndex. Exits with 1 if the p99 of urgent batches is more than twice that on the idle server.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import ray_pubsub
from actors.client.server import Server
from ray_pubsub.errors import OverloadedError
from ray_pubsub.workloads import dense

__all__ = ["main"]

BATCH = 2048
ROUNDS = 5
"""Times that the server is idle and overloaded, in turns: whatever else the machine does slows both."""
UNDER_WAY = 4
"""Batches that one publisher has in flight."""
MOST_RATIO = 2.0
console = Console(width=110)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks urgency", description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--publications", type=int, default=200, help="urgent ones, each time (default: %(default)s)")
    parser.add_argument("--publishers", type=int, default=3, help=f"with {UNDER_WAY} batches in flight each")
    options = parser.parse_args(arguments)
    workload = dense(options.subscriptions)
    known = workload.event_value.reshape(-1, 10)
    values = known[np.random.default_rng(5).integers(0, len(known), BATCH)]
    columns = {f"a{place}": values[:, place] for place in range(10)}
    urgent = pa.record_batch({**columns, "urgent": np.ones(BATCH, bool)})
    index = ray_pubsub.MatchIndex()
    index.add_predicates(workload.predicates())
    expected = np.sort(index.match_many(urgent).subscription_ids)
    name = "bench-urgency"
    with ray_pubsub.start(2, None, name, address="local") as server:
        server.subscribe_many(workload.predicates(), subscriber="desk")
        server.prioritize("r", "critical", "urgent")
        _published(server, urgent, expected, 5)  # connections are made, kernels loaded
        context = multiprocessing.get_context("spawn")
        ready, running, ended = context.Semaphore(0), context.Event(), context.Event()
        others = [
            context.Process(target=_overload, args=(name, server.address, columns, ready, running, ended))
            for _ in range(options.publishers)
        ]
        for other in others:
            other.start()
        for _ in others:
            ready.acquire()
        idle: list[float] = []
        loaded: list[float] = []
        low = seconds = 0.0
        refused = dict.fromkeys(server.settings.levels, 0)
        for _ in range(ROUNDS):
            while _counts(server)["in_flight"]:
                time.sleep(0.05)
            idle += _published(server, urgent, expected, options.publications // ROUNDS)
            running.set()
            while not _counts(server)["waiting"]:
                time.sleep(0.05)
            before, started = _counts(server), time.perf_counter()
            loaded += _published(server, urgent, expected, options.publications // ROUNDS)
            after = _counts(server)
            running.clear()
            seconds += time.perf_counter() - started
            low += after["batches"] - before["batches"] - options.publications // ROUNDS
            for level, count in after["refused_by_level"].items():
                refused[level] += count - before["refused_by_level"][level]
        ended.set()
        running.set()
        for other in others:
            other.join()
    table = Table(
        title=f"Batches of {BATCH:,} events, {options.subscriptions:,} subscriptions like W1", title_justify="left"
    )
    for column in ("", "p50, ms", "p99, ms"):
        table.add_column(column, justify="right" if column else "left")
    for what, each in (("urgent, idle server", idle), ("urgent, overloaded server", loaded)):
        table.add_row(what, *(f"{_quantile(each, share) * 1e3:.1f}" for share in (0.5, 0.99)))
    ratios = [_quantile(loaded, share) / _quantile(idle, share) for share in (0.5, 0.99)]
    table.add_row(f"ratio (must: p99 ≤ {MOST_RATIO})", *(f"{ratio:.2f}" for ratio in ratios))
    console.print(table)
    console.print(
        f"meanwhile {low / seconds:,.0f} batches a second of the lowest level were published, {refused['low']:,} refused; "
        f"urgent ones refused: {refused['critical']:,}"
    )
    if ratios[-1] > MOST_RATIO:
        raise SystemExit(1)


def _counts(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = server.stats(hot=0).coordinators[0]
    return found


def _published(server: Server, batch: Any, expected: Any, count: int) -> list[float]:
    """Seconds of each publication."""
    found = []
    for number in range(count):
        started = time.perf_counter()
        result = server.publish(batch, deliver=False)
        found.append(time.perf_counter() - started)
        if number % 20 == 0:
            assert (np.sort(result.subscription_ids) == expected).all() and set(result.priorities) == {"critical"}
    return found


def _overload(name: str, address: str, columns: dict[str, Any], ready: Any, running: Any, ended: Any) -> None:
    """In a process of its own: as many batches as the server takes, and more, while `running` is set. The publishers stand for other
    machines, so their own work gets only the CPU time that the server leaves."""
    os.nice(19)
    server = ray_pubsub.connect(name, address=address)
    batch = pa.record_batch({**columns, "urgent": np.zeros(BATCH, bool)})

    def publish(_: int) -> None:
        while not ended.is_set():
            running.wait()
            try:
                server.publish(batch, deliver=False)
            except OverloadedError as error:
                time.sleep(error.retry_after)

    with ThreadPoolExecutor(UNDER_WAY) as pool:
        work = [pool.submit(publish, number) for number in range(UNDER_WAY)]
        ready.release()
        for each in work:
            each.result()
    server.close()


def _quantile(seconds: list[float], share: float) -> float:
    return statistics.quantiles(seconds, n=100, method="inclusive")[round(share * 100) - 1]
