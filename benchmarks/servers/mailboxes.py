"""Deliveries through the mailboxes: in columns, against one object for each; in memory and durable; polled, acknowledged, restored."""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from actors.mailboxes.delivery_batch import DeliveryBatch
from actors.mailboxes.event_content import pack_event
from actors.mailboxes.mailboxes import Mailboxes
from actors.mailboxes.queue.priority_queue import PriorityQueue
from actors.mailboxes.settings import MailboxSettings
from actors.mailboxes.store.store import MailboxStore
from actors.telemetry.process_memory import process_bytes
from benchmarks.timing import Timing

__all__ = ["main"]

LEVELS = ["low", "middle", "high"]
SETTINGS = MailboxSettings(levels=LEVELS, capacity=None, capacity_bytes=None, in_flight_limit=10**9)
EVENTS = 4096
CONTENT = {"model": "iphone5s", "price": 550, "city": "Berlin", "used": True}
REPEATS = 3
POLLED, POLLS = 1000, 50
STALLED_EVENTS, STALLED_MATCHES = 1000, 50


def batches(matches: int, subscribers: int) -> list[DeliveryBatch]:
    """Returns a first one, in which mailboxes come into being, and those that are timed."""
    random = np.random.default_rng(5)
    return [
        DeliveryBatch(
            np.sort(random.integers(0, EVENTS, matches)),
            random.integers(0, 10**6, matches),
            random.integers(0, subscribers, matches),
            random.integers(0, len(LEVELS), matches),
            np.arange(EVENTS) + EVENTS * number,
            [CONTENT] * EVENTS,
            keys=list(range(EVENTS * number, EVENTS * (number + 1))),
        )
        for number in range(REPEATS + 1)
    ]


def as_objects(given: list[DeliveryBatch], subscribers: int) -> Timing:
    """Returns the same batches put into plain queues, one per subscriber: an object for each delivery, no contents, no keys."""
    queues = [PriorityQueue(LEVELS) for _ in range(subscribers)]
    seconds = []
    for batch in given:
        start = time.perf_counter()
        order = np.argsort(batch.subscribers, kind="stable")
        codes, levels = batch.subscribers[order], batch.levels[order]
        bounds = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
        for first, end in pairwise(bounds):
            queues[codes[first]].put(
                [(level, [number], 0) for number, level in enumerate(levels[first:end].tolist(), first)]
            )
        seconds.append(time.perf_counter() - start)
    assert sum(map(len, queues)) == sum(map(len, given))
    return Timing(seconds[1:])


def delivered(mailboxes: Mailboxes, given: list[DeliveryBatch]) -> Timing:
    seconds = []
    for batch in given:
        start = time.perf_counter()
        report = mailboxes.deliver(batch)
        seconds.append(time.perf_counter() - start)
        assert report.delivered == len(batch)
    return Timing(seconds[1:])


def consumed(mailboxes: Mailboxes, subscribers: int, columns: bool) -> tuple[int, str, str]:
    """Returns how many deliveries were polled and acknowledged, in up to POLLS of each; polled a second, acknowledged a second."""
    polling = acking = 0.0
    count = 0
    subscriber = POLLS % subscribers if columns else 0  # others have been emptied
    for _ in range(POLLS):
        start = time.perf_counter()
        found = mailboxes.poll(subscriber, POLLED) if columns else mailboxes.poll(subscriber, POLLED).deliveries()
        polled = time.perf_counter()
        assert mailboxes.ack(subscriber, found).accepted == len(found)
        polling, acking = polling + polled - start, acking + time.perf_counter() - polled
        count += len(found)
        subscriber = (subscriber + 1) % subscribers
    return count, f"{count / polling:,.0f}", f"{count / acking:,.0f}"


def table_of(matches: int) -> Table:
    table = Table(
        title=f"Deliveries a second, batches of {matches:,} matches of {EVENTS:,} events", title_justify="left"
    )
    for name in ("subscribers", "kept", "objects", "delivered", "polled", "acked", "in columns", "acked", "restored"):
        table.add_column(name, justify="right")
    for subscribers in (1, 1_000, 20_000):
        given = batches(matches, subscribers)
        objects = as_objects(given, subscribers)
        for durable in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "mailboxes.db" if durable else None
                mailboxes = Mailboxes(MailboxStore(path), SETTINGS)
                timing = delivered(mailboxes, given)
                first, *messages = consumed(mailboxes, subscribers, False)
                second, *columns = consumed(mailboxes, subscribers, True)
                left = sum(stats.waiting for stats in mailboxes.stats())
                assert left == (REPEATS + 1) * matches - first - second
                mailboxes.close()
                restored = ""
                if durable:
                    start = time.perf_counter()
                    again = Mailboxes(MailboxStore(path), SETTINGS)
                    restored = f"{left / (time.perf_counter() - start):,.0f}"
                    assert sum(stats.waiting for stats in again.stats()) == left
                    again.close()
                rate = f"{matches / timing.median:,.0f} ({timing.noise:.0%})"
                plain = "" if durable else f"{matches / objects.median:,.0f}"
                table.add_row(
                    f"{subscribers:,}",
                    "on disk" if durable else "in memory",
                    plain,
                    rate,
                    *messages,
                    *columns,
                    restored,
                )
        table.add_section()
    return table


def stalled_batch(number: int) -> DeliveryBatch:
    """Returns each event matches STALLED_MATCHES subscriptions of subscriber 1, and one of subscriber 2."""
    rows = np.repeat(np.arange(STALLED_EVENTS), STALLED_MATCHES + 1)
    subscribers = np.tile(np.append(np.full(STALLED_MATCHES, 1), 2), STALLED_EVENTS)
    events = np.arange(STALLED_EVENTS) + STALLED_EVENTS * number
    return DeliveryBatch(
        rows,
        np.tile(np.arange(STALLED_MATCHES + 1), STALLED_EVENTS),
        subscribers,
        np.zeros(len(rows), np.int64),
        events,
        [pack_event(CONTENT)] * STALLED_EVENTS,
        events.tolist(),
        f"publication {number}",
    )


def stalled_table(seconds: float) -> Table:
    title = f"A fast subscriber, beside one that reads too or has a full mailbox; batches of {STALLED_EVENTS:,} events"
    table = Table(title=title, title_justify="left")
    for name in ("the other one", "batches", "rejected", "p50 ms", "p99 ms", "memory MB", "file MB"):
        table.add_column(name, justify="right")
    for stalled in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "mailboxes.db"
            mailboxes = Mailboxes(MailboxStore(path), MailboxSettings(in_flight_limit=10**6))
            before, rejected, latencies = process_bytes(), 0, []
            ends = time.monotonic() + seconds
            while time.monotonic() < ends or len(latencies) < 2:
                batch = stalled_batch(len(latencies))
                start = time.thread_time()
                rejected += len(mailboxes.deliver(batch).rejected)
                found = mailboxes.poll(2, STALLED_EVENTS)
                latencies.append(time.thread_time() - start)
                assert mailboxes.ack(2, found).accepted == STALLED_EVENTS
                if not stalled:
                    mailboxes.ack(1, mailboxes.poll(1, 10**6))
            assert (rejected > 0) <= stalled
            p50, p99 = np.quantile(latencies[1:], (0.5, 0.99)) * 1000
            memory = (process_bytes() - before) / 2**20
            mailboxes.close()
            table.add_row(
                "is stalled" if stalled else "reads",
                f"{len(latencies):,}",
                f"{rejected:,}",
                f"{p50:.1f}",
                f"{p99:.1f}",
                f"{memory:+.0f}",
                f"{path.stat().st_size / 2**20:.1f}",
            )
    return table


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks mailboxes", description=__doc__)
    parser.add_argument("--matches", type=int, default=100_000, help="of one batch (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="with a stalled subscriber (default: %(default)s)")
    options = parser.parse_args(arguments)
    console = Console(width=140)
    console.print(table_of(options.matches))
    console.print(stalled_table(options.seconds))
