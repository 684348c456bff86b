"""Matching on W1, W2 and W3, one core: every engine beside two compiled references, results compared in the same run.

python -m benchmarks matching [--subscriptions N] [--engines auto,dexin,…] [--events N]
"""

from __future__ import annotations

import argparse
import gc
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import ray_pubsub
from benchmarks.baselines import ColumnarScan, InvertedLists
from ray_pubsub.index.match_index import ENGINES
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.workloads import Workload, dense, partial, sparse

BATCH = 1024
REPEATS = 5
console = Console(width=150)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks matching", description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    parser.add_argument("--engines", default="auto", help="comma-separated; 'all' is every engine but scan")
    parser.add_argument("--workloads", default="w1,w2,w3")
    options = parser.parse_args(arguments)
    engines = [name for name in ENGINES if name != "scan"] if options.engines == "all" else options.engines.split(",")
    makers = {"w1": dense, "w2": partial, "w3": sparse}
    for name in options.workloads.split(","):
        run(makers[name](options.subscriptions), engines)


def run(workload: Workload, engines: list[str]) -> None:
    table = Table(title=f"{workload.name}, {workload.subscriptions:,} subscriptions, one core", title_justify="left")
    for column in (
        "system",
        "batch ms/event",
        "reference ÷",
        "one event ms",
        "reference ÷",
        "p50",
        "p99",
        "build s",
        "bytes/sub",
    ):
        table.add_column(column, justify="left" if column == "system" else "right")
    dicts = workload.event_dicts()
    reference, expected = reference_times(workload, table)
    for engine in engines:
        index = ray_pubsub.MatchIndex(engine=engine)
        predicates = workload.predicates()
        start = time.perf_counter()
        index.add_predicates(predicates)
        index.match(dicts[0])
        build = time.perf_counter() - start
        check(index, dicts, expected, workload)
        batch = batch_of(workload, dicts)
        batch_ms = best_of(lambda index=index, batch=batch: index.match_many(batch)) / batch.size * 1e3
        singles = one_by_one(index, dicts)
        mean = float(np.mean(singles))
        table.add_row(
            engine,
            f"{batch_ms:.4f}",
            f"{reference / batch_ms:.1f}",
            f"{mean:.4f}",
            f"{reference / mean:.1f}",
            f"{np.percentile(singles, 50):.4f}",
            f"{np.percentile(singles, 99):.4f}",
            f"{build:.1f}",
            f"{index.nbytes / workload.subscriptions:.0f}",
        )
        del index
        gc.collect()
    console.print(table)


def reference_times(workload: Workload, table: Table) -> tuple[float, Any]:
    """The compiled reference's ms per event, and its matches: sorted ids per event."""
    if workload.name == "W3":
        lists = InvertedLists(workload)
        lists.match()
        ms = best_of(lists.match) / workload.events * 1e3
        expected = [np.sort(lists.out[lists.offsets[e] : lists.offsets[e + 1]]) for e in range(workload.events)]
        table.add_row("inverted lists, counting (reference)", f"{ms:.4f}", "1", "", "", "", "", "", "")
        return ms, expected
    scan = ColumnarScan(workload)
    values = workload.event_value.reshape(workload.events, workload.attributes)
    expected = [np.sort(scan.match(row)) for row in values]
    times = []
    for row in values:
        start = time.perf_counter()
        scan.match(row)
        times.append((time.perf_counter() - start) * 1e3)
    ms = float(np.median(times))
    table.add_row(
        "columnar scan (reference)", f"{ms:.4f}", "1", f"{ms:.4f}", "1", "", f"{np.percentile(times, 99):.3f}", "", ""
    )
    return ms, expected


def check(index: ray_pubsub.MatchIndex, dicts: list[dict[str, int]], expected: Any, workload: Workload) -> None:
    """Every event of the workload, in a batch and one by one, gives exactly the reference's ids."""
    found = index.match_many(dicts)
    for event, ids in enumerate(expected):
        assert np.array_equal(np.sort(np.array(found[event])), ids), f"event {event} differs"
    for event in range(0, len(dicts), max(1, len(dicts) // 50)):
        assert np.array_equal(np.sort(np.array(index.match(dicts[event]), dtype=np.int64)), expected[event])
    if workload.subscriptions == 1_000_000:
        assert len(found) == workload.matches_of_a_million


def batch_of(workload: Workload, dicts: list[dict[str, int]]) -> EventBatch:
    """The workload's events and further uniform ones, prepared."""
    rng = np.random.default_rng(1)
    if workload.name != "W3":
        names = workload.names()
        more = rng.integers(0, 1_000_001, (BATCH - len(dicts), workload.attributes)).tolist()
        dicts = dicts + [dict(zip(names, row, strict=True)) for row in more]
    batch = from_dicts(dicts)
    batch.cells()
    return batch


def one_by_one(index: ray_pubsub.MatchIndex, dicts: list[dict[str, int]]) -> list[float]:
    """ms of `match_many` on a prepared batch of one (reading the dict is not in it), for each event the median of three passes."""
    batches = [from_dicts([event]) for event in dicts[:200]]
    passes = []
    for _ in range(3):
        times = []
        for batch in batches:
            start = time.perf_counter()
            index.match_many(batch)
            times.append((time.perf_counter() - start) * 1e3)
        passes.append(times)
    return [float(np.median(times)) for times in zip(*passes, strict=True)]


def best_of(work: Any) -> float:
    work()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times))
