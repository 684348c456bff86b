"""A server under ten times the publishers that it admits, with a subscriber that never polls: memory of every role against its bound, an
exact account of what was refused, rejected and delivered; and how long events take to a fast subscriber beside a stalled one.

Refused publications raise OverloadedError and were not done: none of their events may reach anybody. The bound of the coordinator follows
from the settings: what it admits at once (each byte of a batch may be there as frame, columns and rows), one full mailbox, two windows.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import ray_pubsub
from actors.client.server import Server
from benchmarks.servers.role_memory import RoleMemory, watched
from ray_pubsub.errors import OverloadedError

__all__ = ["main"]

MEGABYTE = 2**20
PLACES, PATIENCE = 4, 0.2
"""Batches that the coordinator works on at once, and seconds that a batch waits for a place."""
IN_FLIGHT_BYTES, CAPACITY_BYTES, WINDOW_BYTES = 32 * MEGABYTE, 32 * MEGABYTE, 16 * MEGABYTE
CAPACITY = 20_000
MATCHES = 50
"""Subscriptions of the stalled subscriber; each matches every event."""
BATCH, TIMES = 500, 10
FIXED = 150 * MEGABYTE
"""Of a process, beyond what it has when the server has just started: caches, threads, pieces that the allocator keeps."""
COPIES = 4
ROUNDS, PUBLICATIONS = 6, 60
console = Console(width=120)


def bounds() -> dict[str, int]:
    """Bytes that each role may grow by."""
    mailbox = CAPACITY * 400 + CAPACITY_BYTES
    return {
        "registry": FIXED,
        "shard": FIXED + COPIES * IN_FLIGHT_BYTES,
        "coordinator": FIXED + COPIES * IN_FLIGHT_BYTES + mailbox + 2 * WINDOW_BYTES,
        "Ray's GCS": FIXED,
        "Ray's raylet": FIXED,
    }


class Overload:
    """Publishers without any patience, a consumer that takes everything, and another that takes nothing."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.counts: Counter[str] = Counter()
        self.published: set[int] = set()
        self.received: list[int] = []
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._drained = threading.Event()

    def publish(self) -> None:
        while not self._over.is_set():
            with self._lock:
                numbers = [next(self._numbers) for _ in range(BATCH)]
            events = pa.record_batch({"n": numbers, "text": ["x" * 40] * BATCH})
            try:
                result = self.server.publish(events)
            except OverloadedError as error:
                assert error.idempotency_key is None, "a batch of one portion was done in part"
                with self._lock:
                    self.counts["refused"] += 1
                continue
            with self._lock:
                self.counts["served"] += 1
                self.counts["delivered"] += result.deliveries.delivered
                self.counts["rejected"] += result.deliveries.rejected
                self.published.update(numbers)
            assert len(result) == BATCH * (MATCHES + 1)

    def consume(self) -> None:
        while True:
            drained = self._drained.is_set()
            found = self.server.poll("fast", limit=20_000, wait=0.2)
            if found:
                self.received += [each.event["n"] for each in found if each.event]
                assert not self.server.ack(found).stale
            elif drained:
                return

    def run(self, publishers: int, seconds: float) -> float:
        """Served events a second."""
        self._over.clear()
        before, started = self.counts["served"], time.monotonic()
        with ThreadPoolExecutor(publishers) as pool:
            running = [pool.submit(self.publish) for _ in range(publishers)]
            time.sleep(seconds)
            self._over.set()
            for each in running:
                each.result()
        return (self.counts["served"] - before) * BATCH / (time.monotonic() - started)

    def drain(self) -> None:
        """The consumer ends when its mailbox is empty."""
        self._drained.set()

    def account(self) -> dict[str, bool]:
        """What must hold when everybody has ended, and whether it does."""
        stats = self.server.stats(hot=0)
        mailboxes = stats.mailboxes
        assert mailboxes is not None
        fast = Counter(self.received)
        # What waits belongs to the stalled subscriber, whose other matches were rejected. The fast one's mailbox may be full for a moment.
        full = self.counts["rejected"] - (MATCHES * len(self.published) - mailboxes.waiting)
        return {
            f"the fast subscriber has what was served, each event once, but {full:,} reported as rejected, and nothing refused": (
                set(fast) <= self.published and len(fast) == len(self.published) - full and max(fast.values()) == 1
            ),
            "OverloadedErrors are what the coordinator counts as refused": sum(
                each["refused"] for each in stats.coordinators
            )
            == self.counts["refused"],
            "matches are delivered or reported as rejected": self.counts["delivered"] + self.counts["rejected"]
            == len(self.published) * (MATCHES + 1),
            "the mailboxes count the same": (mailboxes.delivered, mailboxes.rejected)
            == (self.counts["delivered"], self.counts["rejected"]),
            "the stalled mailbox is full and no fuller": mailboxes.waiting <= CAPACITY,
        }


def overloaded(server: Server, seconds: float, progress: Progress) -> tuple[Table, list[str]]:
    task = progress.add_task("ten times overload", total=5)
    load = Overload(server)
    consumer = threading.Thread(target=load.consume)
    consumer.start()
    memory = RoleMemory(server)
    load.run(1, 3.0)  # kernels and caches
    progress.advance(task)
    alone = load.run(PLACES, max(3.0, seconds / 10))
    progress.advance(task)
    before = memory.sample()
    halves = []
    with watched(memory):
        refused = load.counts["refused"]
        for _ in range(2):
            served = load.run(PLACES * TIMES, seconds / 2)
            halves.append(memory.sample())
            progress.advance(task)
        refused = load.counts["refused"] - refused
        load.drain()
        consumer.join()
        progress.advance(task)
    table = Table(title=f"{PLACES * TIMES} publishers for {PLACES} places, {seconds:g} s", title_justify="left")
    for name in ("MB", "before", "half way", "at the end", "most", "bound"):
        table.add_column(name, justify="left" if name == "MB" else "right")
    problems, allowed = [], bounds()
    for role, size in before.items():
        bound = next((size + more for name, more in allowed.items() if role.startswith(name)), None)
        sizes = [size, halves[0][role], halves[1][role], memory.most[role], *([] if bound is None else [bound])]
        table.add_row(role, *(f"{each / MEGABYTE:,.0f}" for each in sizes))
        if bound is not None and memory.most[role] > bound:
            problems.append(f"{role} took {memory.most[role]:,} bytes, of {bound:,}")
    console.print(
        f"served {alone:,.0f} events/s by {PLACES} publishers and {served:,.0f} by {PLACES * TIMES}; "
        f"{load.counts['served']:,} batches served, {load.counts['refused']:,} refused ({refused:,} of them under overload); "
        f"{load.counts['delivered']:,} matches delivered, {load.counts['rejected']:,} rejected"
    )
    for what, holds in load.account().items():
        console.print(f"{'holds' if holds else 'BROKEN'}: {what}")
        problems += [] if holds else [what]
    return table, problems


def latencies(server: Server, first: int) -> list[float]:
    """Seconds from publishing one event until the fast subscriber has it, of which each is checked to be the one that was published."""
    found = []
    for number in range(first, first + PUBLICATIONS):
        event = {"n": -1 - number, "text": "x" * 40}
        started = time.perf_counter()
        server.publish(event)
        deliveries = server.poll("fast", wait=5.0)
        found.append(time.perf_counter() - started)
        assert [each.event for each in deliveries] == [event]
        server.ack(deliveries)
    return found


def beside_a_stalled_one(server: Server, progress: Progress) -> tuple[Table, list[str]]:
    """Rounds alone and rounds beside the stalled one take turns, so that both see the same machine."""
    task = progress.add_task("a fast subscriber beside a stalled one", total=ROUNDS)
    alone: list[float] = []
    beside: list[float] = []
    latencies(server, 10**6)
    for number in range(ROUNDS):
        beside += latencies(server, 2 * number * PUBLICATIONS)
        server.unsubscribe_many([f"stalled-{place}" for place in range(MATCHES)])
        alone += latencies(server, (2 * number + 1) * PUBLICATIONS)
        subscribe_stalled(server)
        assert server.publish({"n": 1}).deliveries.rejected == MATCHES, "its mailbox is full"
        server.ack(server.poll("fast", wait=5.0))
        progress.advance(task)
    table = Table(title="From publishing to polled, one event, ms", title_justify="left")
    for name in ("", "p50", "p99"):
        table.add_column(name, justify="right")
    rows: dict[str, Any] = {"alone": alone, "beside a stalled subscriber": beside}
    quantiles = {name: np.quantile(each, (0.5, 0.99)) for name, each in rows.items()}
    for name, (p50, p99) in quantiles.items():
        table.add_row(name, f"{p50 * 1e3:.2f}", f"{p99 * 1e3:.2f}")
    ratios = quantiles["beside a stalled subscriber"] / quantiles["alone"]
    table.add_row("ratio (must: 2)", *(f"{each:.2f}" for each in ratios))
    spread = statistics.quantiles(alone, n=10)
    console.print(f"alone, p10 to p90: {spread[0] * 1e3:.2f} to {spread[-1] * 1e3:.2f} ms")
    slow = [name for name, ratio in zip(("p50", "p99"), ratios, strict=True) if ratio > 2]
    return table, [f"the fast subscriber's {name} is more than twice what it is alone" for name in slow]


def subscribe_stalled(server: Server) -> None:
    table = pa.table(
        {"id": [f"stalled-{place}" for place in range(MATCHES)], "expression": ["n is not null"] * MATCHES}
    )
    assert server.subscribe_many(table, subscriber="stalled").added == MATCHES


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks overload", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="of overload (default: %(default)g)")
    given = parser.parse_args(arguments)
    settings: dict[str, Any] = {
        "max_in_flight": PLACES,
        "max_in_flight_bytes": IN_FLIGHT_BYTES,
        "patience": PATIENCE,
        "mailbox": {"capacity": CAPACITY, "capacity_bytes": CAPACITY_BYTES, "window_bytes": WINDOW_BYTES},
    }
    problems: list[str] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        ray_pubsub.start(2, Path(folder) / "data", "overload", address="local", **settings) as server,
        Progress(console=console) as progress,
    ):
        subscribe_stalled(server)
        server.subscribe("fast", "n is not null", id="fast")
        for part in (
            lambda: overloaded(server, given.seconds, progress),
            lambda: beside_a_stalled_one(server, progress),
        ):
            table, found = part()
            console.print(table)
            problems += found
    if problems:
        raise SystemExit("\n".join(problems))
