"""Matching on W1, W2 and W3, one core: every engine beside two compiled references, results compared in the same run.

python -m benchmarks matching [--subscriptions N | --quick] [--engines auto,dexin,… | --engines all] [--workloads w1,w2,w3]

`dense` and `pivot` are the segments that only `auto` builds, here forced for all clauses. With `auto` among the engines, each other one is
measured in turns with it, and the last line says how much slower auto is than the best of them.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import ray_pubsub
from benchmarks.baselines import ColumnarScan, InvertedLists
from ray_pubsub.engines.registry import ENGINES, build_of, engine_names
from ray_pubsub.engines.selection.cost_formulas import MOST_DENSE_COLUMNS
from ray_pubsub.index.segmented_index import SegmentedIndex
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.workloads import Workload, dense, partial, sparse

BATCH = 1024
ROUNDS = 7
SLOW = 2.0
"""An engine that takes at least this many milliseconds of CPU per event is measured with FEW events."""
FEW = 32
QUICK = 100_000
COLUMNS = (
    "system", "batch ms/event", "reference ÷", "auto ÷", "one event ms", "reference ÷", "auto ÷", "p50", "p99", "build s", "bytes/sub",
)  # fmt: skip
console = Console(width=160)


class Times(NamedTuple):
    """Milliseconds per event, by wall clock and CPU time: batches[round, which], singles[round, event, which]."""

    batches: NDArray[np.float64]
    singles: NDArray[np.float64]

    @property
    def batch(self) -> float:
        return float(np.median(self.batches[:, 0]))

    @property
    def each(self) -> NDArray[np.float64]:
        """Returns the median round of every event."""
        middle: NDArray[np.float64] = np.median(self.singles[:, :, 0], axis=0)
        return middle

    def over(self, other: Times) -> tuple[float, float]:
        """Returns the ratio of these times to another's, in batches and one by one: the CPU time of the fastest rounds, because other
        load only ever adds time."""
        singles = self.singles[:, :, 1].min(axis=0).sum() / other.singles[:, :, 1].min(axis=0).sum()
        return float(self.batches[:, 1].min() / other.batches[:, 1].min()), float(singles)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks matching", description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} subscriptions")
    parser.add_argument("--engines", default="auto", help="comma-separated; 'all' is every engine but scan")
    parser.add_argument("--workloads", default="w1,w2,w3")
    options = parser.parse_args(arguments)
    single = [name for name in ENGINES if name not in ("auto", "scan")]
    engines = ["auto", *dict.fromkeys(single)] if options.engines == "all" else options.engines.split(",")
    makers: dict[str, Callable[[int], Any]] = {"w1": dense, "w2": partial, "w3": sparse}
    for name in options.workloads.split(","):
        run(makers[name](QUICK if options.quick else options.subscriptions), engines)


def run(workload: Workload, engines: list[str]) -> None:
    table = Table(title=f"{workload.name}, {workload.subscriptions:,} subscriptions, one core", title_justify="left")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "system" else "right")
    dicts = workload.event_dicts()
    reference, expected = reference_times(workload, table)
    auto: ray_pubsub.MatchIndex | None = None
    ratios: dict[str, tuple[float, float]] = {}
    for engine in engines:
        if engine == "dense" and workload.attributes > MOST_DENSE_COLUMNS:
            table.add_row(f"dense: for at most {MOST_DENSE_COLUMNS} attributes", *[""] * (len(COLUMNS) - 1))
            continue
        index = index_of(engine)
        predicates = workload.predicates()
        start = time.perf_counter()
        index.add_predicates(predicates)
        index.match(dicts[0])
        build = time.perf_counter() - start
        slow = check(index, dicts, expected, workload) > SLOW
        batch = batch_of(workload, dicts, FEW if slow else BATCH)
        singles = [from_dicts([event]) for event in dicts[: FEW if slow else 200]]
        name = engine
        if engine == "auto":
            auto = index
            name = f"auto ({', '.join(sorted({part.engine for part in index.explain(dicts[0]).segments}))})"
        against = {} if auto is None or engine == "auto" else {"auto": auto}
        times = in_turns({engine: index, **against}, batch, singles, 1 if slow else ROUNDS)
        mine = times[engine]
        ratios[engine] = times["auto"].over(mine) if "auto" in times else (1.0, 1.0)
        each = mine.each
        table.add_row(
            name + (f", {FEW} events" if slow else ""),
            f"{mine.batch:.4f}",
            f"{reference / mine.batch:.1f}",
            f"{ratios[engine][0]:.2f}" if against else "",
            f"{each.mean():.4f}",
            f"{reference / each.mean():.1f}",
            f"{ratios[engine][1]:.2f}" if against else "",
            f"{np.percentile(each, 50):.4f}",
            f"{np.percentile(each, 99):.4f}",
            f"{build:.1f}",
            f"{index.nbytes / workload.subscriptions:.0f}",
        )
        del index
        gc.collect()
    console.print(table)
    ratios.pop("auto", None)
    if auto is not None and ratios:
        best = [max(ratios, key=lambda engine, place=place: ratios[engine][place]) for place in (0, 1)]  # type: ignore[misc]
        console.print(
            f"auto ÷ best single engine: batch {ratios[best[0]][0]:.2f} ({best[0]}), one event {ratios[best[1]][1]:.2f} ({best[1]})\n"
        )


def index_of(engine: str) -> ray_pubsub.MatchIndex:
    """Returns an index of that engine; of a part of auto's, an index whose segments are all of that kind."""
    if engine in engine_names():
        return ray_pubsub.MatchIndex(engine=engine)
    index = ray_pubsub.MatchIndex()
    index._books = index._books._replace(engine=SegmentedIndex(index.limits, build_of(engine, {})))
    return index


def in_turns(
    indexes: dict[str, ray_pubsub.MatchIndex], batch: EventBatch, singles: list[EventBatch], rounds: int
) -> dict[str, Times]:
    """`match_many` on prepared batches (reading dicts is not in it), index after index in every round."""
    times: dict[str, list[tuple[NDArray[np.float64], list[NDArray[np.float64]]]]] = {name: [] for name in indexes}
    for index in indexes.values():
        index.match_many(batch)
    for _ in range(rounds):
        for name, index in indexes.items():
            whole = took(lambda index=index: index.match_many(batch)) / batch.size  # type: ignore[misc]
            each = [took(lambda index=index, one=one: index.match_many(one)) for one in singles]  # type: ignore[misc]
            times[name].append((whole, each))
    return {
        name: Times(np.array([whole for whole, _ in found]), np.array([each for _, each in found]))
        for name, found in times.items()
    }


def took(work: Callable[[], object]) -> NDArray[np.float64]:
    """Returns milliseconds of wall clock and of CPU time."""
    start, used = time.perf_counter(), time.thread_time()
    work()
    return np.array([time.perf_counter() - start, time.thread_time() - used]) * 1e3


def reference_times(workload: Workload, table: Table) -> tuple[float, Any]:
    """Returns the compiled reference's ms per event, and its matches: sorted ids per event."""
    if workload.name == "W3":
        lists = InvertedLists(workload)
        lists.match()
        ms = float(np.median([took(lists.match)[0] for _ in range(ROUNDS)])) / workload.events
        expected = [np.sort(lists.out[lists.offsets[e] : lists.offsets[e + 1]]) for e in range(workload.events)]
        table.add_row("inverted lists, counting (reference)", f"{ms:.4f}", "1", *[""] * (len(COLUMNS) - 3))
        return ms, expected
    scan = ColumnarScan(workload)
    values = workload.event_value.reshape(workload.events, workload.attributes)
    expected = [np.sort(scan.match(row)) for row in values]
    times = [took(lambda row=row: scan.match(row))[0] for row in values]  # type: ignore[misc]
    ms = float(np.median(times))
    table.add_row("columnar scan (reference)", f"{ms:.4f}", "1", "", f"{ms:.4f}", "1", *[""] * (len(COLUMNS) - 6))
    return ms, expected


def check(index: ray_pubsub.MatchIndex, dicts: list[dict[str, int]], expected: Any, workload: Workload) -> float:
    """Checks that every event of the workload, in a batch, and some one by one, give exactly the reference's ids. Returns the batch's CPU
    milliseconds per event."""
    start = time.thread_time()
    found = index.match_many(dicts)
    milliseconds = (time.thread_time() - start) * 1e3 / len(dicts)
    for event, ids in enumerate(expected):
        assert np.array_equal(np.sort(np.array(found[event])), ids), f"event {event} differs"
    for event in range(0, len(dicts), max(1, len(dicts) // 50)):
        assert np.array_equal(np.sort(np.array(index.match(dicts[event]), dtype=np.int64)), expected[event])
    if workload.subscriptions == 1_000_000:
        assert len(found) == workload.matches_of_a_million
    return milliseconds


def batch_of(workload: Workload, dicts: list[dict[str, int]], size: int) -> EventBatch:
    """Returns the workload's events and, for W1 and W2, further uniform ones, prepared."""
    rng = np.random.default_rng(1)
    if workload.name != "W3" and size > len(dicts):
        names = workload.names()
        more = rng.integers(0, 1_000_001, (size - len(dicts), workload.attributes)).tolist()
        dicts = dicts + [dict(zip(names, row, strict=True)) for row in more]
    batch = from_dicts(dicts[:size])
    batch.cells()
    return batch
