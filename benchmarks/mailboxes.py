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

from actors.delivery_batch import DeliveryBatch
from actors.mailbox_settings import MailboxSettings
from actors.mailbox_store import MailboxStore
from actors.mailboxes import Mailboxes
from benchmarks.timing import Timing
from ray_pubsub.delivery.queue import PriorityQueue

__all__ = ["main"]

LEVELS = ["low", "middle", "high"]
SETTINGS = MailboxSettings(levels=LEVELS, capacity=None, capacity_bytes=None, in_flight_limit=10**9)
EVENTS = 4096
CONTENT = {"model": "iphone5s", "price": 550, "city": "Berlin", "used": True}
REPEATS = 3
POLLED, POLLS = 1000, 50


def batches(matches: int, subscribers: int) -> list[DeliveryBatch]:
    """A first one, in which mailboxes come into being, and those that are timed."""
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
    """The same batches put into plain queues, one per subscriber: an object for each delivery, no contents, no keys."""
    queues = [PriorityQueue(LEVELS) for _ in range(subscribers)]
    seconds = []
    for batch in given:
        start = time.perf_counter()
        order = np.argsort(batch.subscribers, kind="stable")
        codes, levels = batch.subscribers[order], batch.levels[order]
        bounds = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
        for first, end in pairwise(bounds):
            queues[codes[first]].put_many(range(first, end), levels[first:end])
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
    """How many deliveries were polled and acknowledged, in up to POLLS of each; polled a second, acknowledged a second."""
    polling = acking = 0.0
    count = 0
    subscriber = POLLS % subscribers if columns else 0  # others have been emptied
    for _ in range(POLLS):
        start = time.perf_counter()
        found = mailboxes.poll(subscriber, POLLED, columns=True) if columns else mailboxes.poll(subscriber, POLLED)
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


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks mailboxes", description=__doc__)
    parser.add_argument("--matches", type=int, default=100_000, help="of one batch (default: %(default)s)")
    options = parser.parse_args(arguments)
    Console(width=140).print(table_of(options.matches))
