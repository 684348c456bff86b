"""A loaded index that changes: single adds and removes, match latency while changes are applied, saving and loading, memory after removals.

python -m benchmarks updates [--subscriptions N] [--seconds S]
python -m benchmarks updates --beside-the-papers [--subscriptions N]

Each part ends with a check of matches against a columnar scan of the same bounds. The second form is a table of all engines in the papers'
unit, a single insertion or deletion: amortised, merges included, and the worst, beside what the papers state.
"""

from __future__ import annotations

import argparse
import gc
import random
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import ray_pubsub
from benchmarks.figures.measuring import changes
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.workloads import dense, gem, generate_ranges

CHANGES_A_SECOND = 10_000
TOGETHER = 50
"""Adds, and as many removes, that come as one change each where changes come in groups: every 10 ms."""
SINGLES = 200_000
"""Enough changes to cause merges of every size."""
TEXTS = 200_000
PAPER_CHANGES = 6000
"""Several tails become blocks, and five blocks of that size one."""
PUBLISHED = {
    "GEM without caches": (32.1, 16.6),
    "GEM, 10 caches": (81.3, 73.2),
    "GEM, 20 caches": (149.0, 125.8),
    "REIN": (55.7, 32.9),
    "H-Tree": (211.8, 163.6),
    "TAMA": (298.1, 228.9),
}
"""GEM section III.B: microseconds an insertion and a deletion, Java."""
console = Console(width=120)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks updates", description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long changes are applied while matching")
    parser.add_argument("--beside-the-papers", action="store_true")
    options = parser.parse_args(arguments)
    if options.beside_the_papers:
        beside_the_papers(options.subscriptions)
        return
    table = Table(title=f"Changes to {options.subscriptions:,} subscriptions of W1", title_justify="left")
    for column in ("what", "figure", "aim"):
        table.add_column(column, justify="left" if column == "what" else "right")
    book = Bookkeeping(options.subscriptions)
    index = ray_pubsub.MatchIndex(merges="background")
    index.add_predicates(book.workload.predicates())
    index.match_many(book.batches[0])
    quiet = latencies(index, book, lambda passes: passes < 10)
    table.add_row("match p50 / p99, quiet", "{:.3f} / {:.3f} ms".format(*np.percentile(quiet, [50, 99])), "")
    for together in (1, TOGETHER):
        churn(index, book, options.seconds, together, quiet, table)
    singles(index, book, table)
    file(index, book, table)
    removals(index, book, table)
    console.print(table)


def beside_the_papers(count: int) -> None:
    """GEM's setting (its Figs. 8 and 9): 10 dimensions, width 0.5. Additions include parsing a text, which the papers' do not have."""
    table = Table(title=f"Single changes to {count:,} subscriptions, µs of the processor", title_justify="left")
    for column in ("system", "insertion", "worst", "deletion", "worst"):
        table.add_column(column, justify="left" if column == "system" else "right")
    for name, (insertion, deletion) in PUBLISHED.items():
        table.add_row(f"{name}, published", f"{insertion:.0f}", "", f"{deletion:.0f}", "")
    made = generate_ranges(gem(subscriptions=count, events=20)).closed()
    right, dicts = made.matches(), made.event_dicts()
    for engine in ("auto", "dexin", "gem", "rein", "opindex"):
        index = ray_pubsub.MatchIndex(engine)
        index.add_predicates(made.predicates())
        row = changes(index, made, count, PAPER_CHANGES)
        found = index.match_many(dicts)
        for event, expected in enumerate(right):
            assert np.array_equal(np.sort(np.array(found[event], np.int64)), expected), f"event {event} differs"
        table.add_row(
            engine, *(f"{row[name]:,.0f}" for name in ("insert_us", "insert_max_us", "delete_us", "delete_max_us"))
        )
    console.print(table)


class Bookkeeping:
    """The bounds that should be in the index, in plain columns."""

    def __init__(self, count: int) -> None:
        self.workload = dense(count)
        room = count + 4_000_000
        self.low = np.zeros((room, 10), dtype=np.int32)
        self.high = np.zeros((room, 10), dtype=np.int32)
        self.low[:count] = self.workload.low.reshape(-1, 10)
        self.high[:count] = self.workload.high.reshape(-1, 10)
        self.alive = np.zeros(room, dtype=bool)
        self.alive[:count] = True
        self.next = count
        self.events: NDArray[np.int32] = self.workload.event_value.reshape(-1, 10)
        self.batches = [from_dicts([event]) for event in self.workload.event_dicts()]
        self.random = random.Random(7)

    def text(self, predicates: int = 10) -> str:
        """Returns a new subscription like W1's, noted as number `next`. Attributes it leaves out are unconstrained."""
        lows, highs = self.low[self.next], self.high[self.next]
        lows[:], highs[:] = np.iinfo(np.int32).min, np.iinfo(np.int32).max
        parts = []
        for attribute in range(predicates):
            width = self.random.randrange(200_000, 800_000)
            lows[attribute] = low = self.random.randrange(1_000_001 - width)
            highs[attribute] = low + width
            parts.append(f"a{attribute} between {low} and {low + width}")
        self.alive[self.next] = True
        self.next += 1
        return " and ".join(parts)

    def check(self, index: ray_pubsub.MatchIndex, events: int = 20) -> None:
        for number in range(events):
            fits = ((self.low <= self.events[number]) & (self.events[number] <= self.high)).all(axis=1) & self.alive
            found = np.sort(index.match_many(self.batches[number]).subscription_ids)
            assert np.array_equal(found, np.flatnonzero(fits)), f"event {number} differs"


def churn(
    index: ray_pubsub.MatchIndex, book: Bookkeeping, seconds: float, together: int, quiet: list[float], table: Table
) -> None:
    """A thread adds and removes, one by one or `together` at once, while this one matches, an event at a time."""
    pairs = int(CHANGES_A_SECOND / 2 * seconds) // together * together
    first = book.next
    living = np.flatnonzero(book.alive).tolist()
    texts = [book.text() for _ in range(pairs)]
    victims = book.random.sample(living, pairs) if pairs <= len(living) else []
    done = threading.Event()
    applied = [0.0]

    def change() -> None:
        start = time.perf_counter()
        for number in range(0, pairs, together):
            behind = number + together
            if together == 1:
                index.add(first + number, texts[number])
                if victims:
                    index.remove(victims[number])
            else:
                index.add_many(range(first + number, first + behind), texts[number:behind])
                index.remove_many(victims[number:behind])
            ahead = start + 2 * behind / CHANGES_A_SECOND - time.perf_counter()
            if ahead > 0:
                time.sleep(ahead)
        applied[0] = 2 * pairs / (time.perf_counter() - start)
        done.set()

    writer = threading.Thread(target=change)
    writer.start()
    busy = latencies(index, book, lambda _: not done.is_set())
    writer.join()
    book.alive[victims] = False
    book.check(index)
    p50, p99 = (float(part) for part in np.percentile(busy, [50, 99]))
    how = "one by one" if together == 1 else f"{together} together"
    table.add_row(f"match p50 / p99 at {applied[0]:,.0f} changes/s, {how}", f"{p50:.3f} / {p99:.3f} ms", "")
    table.add_row("  p99 with changes ÷ quiet", f"{p99 / float(np.percentile(quiet, 99)):.2f}", "≤ 2")


def latencies(index: ray_pubsub.MatchIndex, book: Bookkeeping, go_on: Any) -> list[float]:
    times: list[float] = []
    passes = 0
    while go_on(passes):
        for batch in book.batches:
            start = time.perf_counter()
            index.match_many(batch)
            times.append((time.perf_counter() - start) * 1e3)
        passes += 1
    return times


def singles(index: ray_pubsub.MatchIndex, book: Bookkeeping, table: Table) -> None:
    """One call each, upkeep in the background included: the clock stops when it has caught up."""
    for predicates in (5, 10):
        first = book.next
        texts = [book.text(predicates) for _ in range(SINGLES)]
        start = time.perf_counter()
        for number, text in enumerate(texts, first):
            index.add(number, text)
        called = time.perf_counter() - start
        index.wait_for_merges()
        settled = time.perf_counter() - start
        table.add_row(
            f"single adds of {predicates} predicates, until merged", f"{SINGLES / settled:,.0f}/s", "≥ 50,000"
        )
        table.add_row("  until the last call returns", f"{SINGLES / called:,.0f}/s", "")
    book.check(index)
    victims = book.random.sample(np.flatnonzero(book.alive).tolist(), 2 * SINGLES)
    start = time.perf_counter()
    for number in victims:
        index.remove(number)
    called = time.perf_counter() - start
    index.wait_for_merges()
    settled = time.perf_counter() - start
    book.alive[victims] = False
    book.check(index)
    table.add_row("single removes, until merged", f"{len(victims) / settled:,.0f}/s", "≥ 200,000")
    table.add_row("  until the last call returns", f"{len(victims) / called:,.0f}/s", "")


def file(index: ray_pubsub.MatchIndex, book: Bookkeeping, table: Table) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        start = time.perf_counter()
        index.save(path)
        saved = time.perf_counter() - start
        start = time.perf_counter()
        loaded = ray_pubsub.MatchIndex.load(path)
        loaded.match_many(book.batches[0])
        seconds = time.perf_counter() - start
        size = path.stat().st_size
    book.check(loaded)
    table.add_row(f"save {len(index):,}, {size / len(index):.0f} bytes each", f"{saved:.2f} s", "")
    table.add_row("load, until the first match", f"{seconds:.2f} s", "≤ 2 s")
    plain = ray_pubsub.MatchIndex()
    plain.add_predicates(book.workload.predicates())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        plain.save(path)
        del plain
        gc.collect()
        start = time.perf_counter()
        loaded = ray_pubsub.MatchIndex.load(path)
        loaded.match_many(book.batches[0])
        seconds = time.perf_counter() - start
    table.add_row("load of W1 as it was bulk-loaded", f"{seconds:.2f} s", "≤ 2 s")
    count = min(TEXTS, book.workload.subscriptions)
    bounds = np.stack([book.workload.low, book.workload.high], axis=1).reshape(-1, 20)[:count].tolist()
    text = " and ".join(f"a{attribute} between %d and %d" for attribute in range(10))
    plain = ray_pubsub.MatchIndex()
    plain.add_many(range(count), [text % tuple(row) for row in bounds])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        start = time.perf_counter()
        plain.save(path)
        saved = time.perf_counter() - start
        start = time.perf_counter()
        loaded = ray_pubsub.MatchIndex.load(path)
        found = loaded.match_many(book.batches[0])
        seconds = time.perf_counter() - start
        size = path.stat().st_size
    expected = plain.match_many(book.batches[0])
    assert np.array_equal(np.sort(found.subscription_ids), np.sort(expected.subscription_ids)), (
        "the loaded index differs"
    )
    table.add_row(f"save {count:,} texts, {size / count:.0f} bytes each", f"{saved:.2f} s", "")
    table.add_row("load of them, until the first match", f"{seconds:.2f} s", "")


def removals(index: ray_pubsub.MatchIndex, book: Bookkeeping, table: Table) -> None:
    before = index.nbytes
    alive = np.flatnonzero(book.alive)
    victims = alive[book.random.sample(range(len(alive)), len(alive) * 9 // 10)]
    start = time.perf_counter()
    index.remove_many(victims.tolist())
    index.wait_for_merges()
    seconds = time.perf_counter() - start
    book.alive[victims] = False
    book.check(index)
    table.add_row(f"remove_many of {len(victims):,}", f"{len(victims) / seconds:,.0f}/s", "")
    table.add_row("bytes held: before ÷ after removing nine tenths", f"{before / index.nbytes:.1f}", "about 10")
