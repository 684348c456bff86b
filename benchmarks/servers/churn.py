"""Subscriptions, rules, subscribers and deliveries that come and go, as in hours of use: memory of every role and the size of every file
return to what they were after the first cycles.

A cycle loads subscriptions as texts and as intervals under new names, changes some one by one, publishes, polls, acknowledges and refuses,
and removes everything again. In each, matches and deliveries are compared with what they must be, and at its end nothing is left.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import ray_pubsub
from actors.client.server import Server
from benchmarks.servers.role_memory import RoleMemory, folder_bytes

__all__ = ["main"]

MEGABYTE = 2**20
MOST = 1.5
TEXTS, INTERVALS, SUBSCRIBERS, SINGLES, EVENTS = 2_000, 10_000, 20, 30, 400
SMALL = 8 * MEGABYTE
"""Files below this may have grown by more than the ratio: a log is cut when it has reached a few MB, not at each commit."""
console = Console(width=120)


def cycle(server: Server, number: int) -> int:
    """Returns the number of requests and events."""
    names = [f"desk-{number}-{place}" for place in range(SUBSCRIBERS)]
    texts = pa.table(
        {
            "id": [f"t{number}-{place}" for place in range(TEXTS)],
            "expression": [f"key = {place % 500} and kind = 'k{number % 7}'" for place in range(TEXTS)],
            "subscriber": [names[place % SUBSCRIBERS] for place in range(TEXTS)],
        }
    )
    low = np.arange(INTERVALS)
    first = number * INTERVALS
    intervals = pa.table(
        {
            "id": first + low,
            "attribute": ["price"] * INTERVALS,
            "low": low,
            "high": low + 4,
            "subscriber": [names[place % SUBSCRIBERS] for place in range(INTERVALS)],
        }
    )
    assert server.subscribe_many(texts).added == TEXTS
    assert server.subscribe_many(intervals).added == INTERVALS
    for place in range(SINGLES):
        server.subscribe(names[0], f"key = {place} and kind = 'none'", id=f"s{number}-{place}")
        server.subscribe(names[0], f"key = {place} and kind = 'never'", id=f"s{number}-{place}")
        server.prioritize(f"r{number}-{place}", "high", f"key = {place} and price > 5")
    # By the loads above: each key has TEXTS / 500 texts, each price from 4 on five intervals.
    events = [{"key": place % 500, "kind": f"k{number % 7}", "price": 10 + place} for place in range(EVENTS)]
    result = server.publish(events)
    expected = EVENTS * (TEXTS // 500 + 5)
    assert len(result) == expected and result.deliveries.delivered == expected
    received = 0
    for name in names:
        refused = server.poll(name, limit=3)
        server.nack(refused)
        while found := server.poll(name, limit=5_000):
            received += len(found)
            assert not server.ack(found).stale
    assert received == expected, f"{received} of {expected} deliveries came"
    for place in range(SINGLES):
        assert server.unprioritize(f"r{number}-{place}")
    removed = sum(server.remove_subscriber(name) for name in names)
    assert removed == TEXTS + INTERVALS + SINGLES
    assert len(server.publish(events[:1])) == 0
    return TEXTS + INTERVALS + removed + SINGLES * 4 + EVENTS + 2 * expected


def measured(memory: RoleMemory, data: Path) -> dict[str, int]:
    files = {f"file {name}": size for name, size in folder_bytes(data).items()}
    return {**memory.sample(), **files}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks churn", description=__doc__)
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument(
        "--warm", type=int, default=10, help="cycles before the first measurement (default: %(default)s)"
    )
    given = parser.parse_args(arguments)
    operations, started = 0, time.monotonic()
    taken: list[dict[str, int]] = []
    with tempfile.TemporaryDirectory() as folder, Progress(console=console) as progress:
        data = Path(folder) / "data"
        settings: dict[str, Any] = {"address": "local", "mailbox": {"window": 20_000, "window_bytes": 4 * MEGABYTE}}
        with ray_pubsub.start(2, data, "churn", **settings) as server:
            memory = RoleMemory(server)
            task = progress.add_task("cycles", total=given.warm + given.cycles)
            points = {given.warm + round(given.cycles * part / 4) for part in range(5)}
            for number in range(1, given.warm + given.cycles + 1):
                operations += cycle(server, number)
                progress.advance(task)
                if number in points:
                    taken.append(measured(memory, data))
                    sizes = ", ".join(f"{what} {size / MEGABYTE:.0f}" for what, size in taken[-1].items())
                    progress.console.print(f"after {number} cycles, MB: {sizes}")
            stats = server.stats(hot=0)
            assert stats.registry["subscriptions"] == 0 and stats.mailboxes is not None
            assert stats.mailboxes.waiting == stats.mailboxes.in_flight == 0
    _show(taken, given.cycles, operations, time.monotonic() - started)


def _show(taken: list[dict[str, int]], cycles: int, operations: int, seconds: float) -> None:
    table = Table(title=f"{cycles} cycles after the warm ones, MB", title_justify="left")
    for name in ("", "at first", "", "half way", "", "at the end", f"ratio (must: {MOST})"):
        table.add_column(name, justify="right")
    grown = []
    for what, size in taken[0].items():
        sizes = [each.get(what, 0) for each in taken]
        table.add_row(what, *(f"{each / MEGABYTE:,.1f}" for each in sizes), f"{sizes[-1] / size:.2f}")
        if sizes[-1] > MOST * max(size, SMALL):
            grown.append(what)
    console.print(table)
    console.print(
        f"{operations:,} changes, deliveries and acknowledgements in {seconds:,.0f} s, each compared; nothing is left"
    )
    if grown:
        raise SystemExit(f"grown to more than {MOST} times: {', '.join(grown)}")
