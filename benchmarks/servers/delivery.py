"""The on-time rate (EDOR) of the delivery queue with and without priorities under overload, and how fast the queue itself is.

On-time rates are of a simulated clock: events arrive at random (Poisson, seeded), a server takes one at a time, all equally long.
Checked in the same run: nothing is lost unseen, and the highest level is never less on time than without priorities.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from queue import PriorityQueue as StandardQueue

import numpy as np
from rich.console import Console
from rich.table import Table

from actors.mailboxes.queue.on_time import LevelStats
from actors.mailboxes.queue.overflow import Overflow
from actors.mailboxes.queue.policy import Policy, Strict, Weighted
from actors.mailboxes.queue.priority_queue import PriorityQueue
from benchmarks.timing import measure

LEVELS = ["low", "normal", "high", "critical"]
SHARES = [0.4, 0.3, 0.2, 0.1]
DEADLINES = [2.0, 1.0, 0.5, 0.1]
SERVICE = 0.001
"""Seconds that one delivery takes."""
CAPACITY = 1_000
LOADS = [0.8, 1.0, 1.5, 2.0]
QUEUES: dict[str, tuple[Policy, Overflow]] = {
    "first in, first out": (Strict(longest_wait=0), "drop-oldest"),
    "strict": (Strict(), "drop-lowest"),
    "strict, ageing 1 s": (Strict(longest_wait=1.0), "drop-lowest"),
    "strict, ageing 0.5 s": (Strict(longest_wait=0.5), "drop-lowest"),
    "weighted 1:2:4:8": (Weighted([1, 2, 4, 8]), "drop-lowest"),
}
ITEMS = 100_000


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def simulated(policy: Policy, overflow: Overflow, load: float, events: int) -> tuple[list[LevelStats], list[float]]:
    """Returns the counts after this many arrivals, when the queue is empty again, and how long deliveries of the highest level waited."""
    random = np.random.default_rng(7)
    arrivals = np.cumsum(random.exponential(SERVICE / load, events)).tolist()
    levels = random.choice(len(LEVELS), events, p=SHARES).tolist()
    clock = Clock()
    queue = PriorityQueue(
        LEVELS, deadlines=DEADLINES, policy=policy, capacity=CAPACITY, overflow=overflow, expired="drop", clock=clock
    )
    delivered, lost = 0, 0
    waits: list[float] = []
    free_at = 0.0

    def serve_until(instant: float) -> None:
        nonlocal delivered, lost, free_at
        while len(queue) and free_at <= instant:
            clock.now = max(clock.now, free_at)
            taken = queue.take(1)
            lost += len(taken.lost)
            delivered += len(taken.deliveries)
            waits.extend(each.taken - each.enqueued for each in taken.deliveries if each.level == len(LEVELS) - 1)
            if taken.deliveries:
                free_at = clock.now + SERVICE

    for number, (instant, level) in enumerate(zip(arrivals, levels, strict=True)):
        serve_until(instant)
        clock.now = instant
        lost += len(queue.put([(level, [number], 0)]).lost)
    serve_until(float("inf"))
    stats = queue.stats()
    assert delivered + lost == events == sum(level.put for level in stats)
    assert all(level.put == level.on_time + level.late + level.expired + level.dropped for level in stats)
    return stats, waits


def on_time_table(events: int) -> Table:
    title = f"On time (EDOR), {events:,} events, a server of {1 / SERVICE:,.0f}/s, at most {CAPACITY:,} waiting"
    table = Table(title=title, title_justify="left")
    for name in ("load", "queue"):
        table.add_column(name)
    for name, deadline, share in zip(LEVELS, DEADLINES, SHARES, strict=True):
        table.add_column(f"{name}\n{share:.0%}, {deadline:g} s", justify="right")
    table.add_column("all", justify="right")
    table.add_column("critical\np99 wait", justify="right")
    for load in LOADS:
        without = 0.0
        for name, (policy, overflow) in QUEUES.items():
            stats, waits = simulated(policy, overflow, load, events)
            rates = [level.edor or 0.0 for level in stats]
            if name == next(iter(QUEUES)):
                without = rates[-1]
            assert rates[-1] >= without, f"{name}: {rates[-1]:.3f} of the highest level on time, {without:.3f} without"
            everything = sum(level.on_time for level in stats) / events
            shown = f"{np.quantile(waits, 0.99) * 1000:.1f} ms" if waits else "none"
            table.add_row(f"{load:g}", name, *(f"{rate:.1%}" for rate in rates), f"{everything:.1%}", shown)
        table.add_section()
    return table


def throughput_table() -> Table:
    random = np.random.default_rng(7)
    items, levels = list(range(ITEMS)), random.choice(len(LEVELS), ITEMS, p=SHARES).tolist()
    table = Table(title=f"Entries a second through the queue, put and taken, {ITEMS:,} at a time", title_justify="left")
    for name in ("queue", "put in one batch, taken in batches of 1,000", "put and taken one by one"):
        table.add_column(name, justify="left" if name == "queue" else "right")
    heap = measure(lambda: standard_library(items[:5_000], levels))
    table.add_row("queue.PriorityQueue, a heap", "has no batches", heap.rate(5_000))
    for name, (policy, _) in QUEUES.items():
        batches = measure(lambda policy=policy: through(policy, items, levels))  # type: ignore[misc]
        singles = measure(lambda policy=policy: one_by_one(policy, items[:5_000], levels))  # type: ignore[misc]
        table.add_row(name, batches.rate(ITEMS), singles.rate(5_000))
    return table


def through(policy: Policy, items: list[int], levels: list[int]) -> None:
    queue = PriorityQueue(LEVELS, deadlines=DEADLINES, policy=policy, capacity=len(items))
    queue.put([(level, [item], 0) for item, level in zip(items, levels, strict=True)])
    drained(queue, len(items), lambda: len(queue.take(1_000).deliveries))


def one_by_one(policy: Policy, items: list[int], levels: list[int]) -> None:
    queue = PriorityQueue(LEVELS, deadlines=DEADLINES, policy=policy, capacity=len(items))
    for item, level in zip(items, levels, strict=False):
        queue.put([(level, [item], 0)])
    drained(queue, len(items), lambda: len(queue.take(1).deliveries))


def standard_library(items: list[int], levels: list[int]) -> None:
    """The same order without bound, deadlines or counts: what those and the levels cost or save."""
    heap: StandardQueue[tuple[int, int, int]] = StandardQueue()
    for order, (item, level) in enumerate(zip(items, levels, strict=False)):
        heap.put((-level, order, item))
    taken = [heap.get() for _ in items]
    assert taken == sorted(taken)


def drained(queue: PriorityQueue, expected: int, take: Callable[[], int]) -> None:
    delivered = 0
    while len(queue):
        delivered += take()
    assert delivered == expected


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks delivery", description=__doc__)
    parser.add_argument("--events", type=int, default=20_000, help="arrivals of each simulation (default: %(default)s)")
    options = parser.parse_args(arguments)
    console = Console(width=120)
    console.print(on_time_table(options.events))
    console.print(throughput_table())
