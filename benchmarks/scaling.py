"""Ten times the subscriptions: W1 at N and at 10 N, in batches and one event at a time, both checked against a columnar scan.

python -m benchmarks scaling [--subscriptions N]     (N = 1,000,000 takes 12 GB of memory)
"""

from __future__ import annotations

import argparse
import gc
import time

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import ray_pubsub
from benchmarks.timing import measure
from ray_pubsub.model.arrow.arrow_events import from_arrow
from ray_pubsub.model.event_batch import EventBatch

ATTRIBUTES, SCALE = 10, 1_000_000
console = Console(width=120)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks scaling", description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    options = parser.parse_args(arguments)
    table = Table(title="W1 at two sizes, one core", title_justify="left")
    for column in ("subscriptions", "batch ms/event", "one event ms", "build s", "bytes/sub", "matches/event"):
        table.add_column(column, justify="right")
    values = np.random.default_rng(5).integers(0, SCALE + 1, (1024, ATTRIBUTES)).astype(np.int32)
    figures = [run(options.subscriptions * factor, values, table) for factor in (1, 10)]
    table.add_row(
        "ratio (must ≤ 11)", *[f"{large / small:.2f}" for small, large in zip(*figures, strict=True)], "", "", ""
    )
    console.print(table)


def run(count: int, values: NDArray[np.int32], table: Table) -> tuple[float, float]:
    low, high = bounds(count)
    index = ray_pubsub.MatchIndex()
    start = time.perf_counter()
    index.add_predicates(rows(low, high))
    index.match({"a0": 1})
    build = time.perf_counter() - start
    gc.collect()
    batch, singles = prepared(values), [prepared(values[number : number + 1]) for number in range(200)]
    found = index.match_many(batch)
    for number in range(10):
        fits = ((low <= values[number]) & (values[number] <= high)).all(axis=1)
        assert np.array_equal(np.sort(np.array(found[number])), np.flatnonzero(fits)), f"event {number} differs"
    batch_ms = measure(lambda: index.match_many(batch)).median / len(values) * 1e3
    times = []
    for single in singles * 2:
        start = time.perf_counter()
        index.match_many(single)
        times.append((time.perf_counter() - start) * 1e3)
    one = float(np.mean(times[len(singles) :]))
    table.add_row(
        f"{count:,}", f"{batch_ms:.4f}", f"{one:.4f}", f"{build:.1f}", f"{index.nbytes / count:.0f}",
        f"{len(found) / len(values):,.0f}",
    )  # fmt: skip
    return batch_ms, one


def bounds(count: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """W1's distribution at any size, made in parts so that no large array of floats is needed."""
    low, high = np.empty((count, ATTRIBUTES), np.int32), np.empty((count, ATTRIBUTES), np.int32)
    for number, start in enumerate(range(0, count, 250_000)):
        rng = np.random.default_rng([20240601, number])
        part = low[start : start + 250_000]
        width = rng.uniform(0.2, 0.8, part.shape)
        begin = rng.uniform(0, 1, part.shape) * (1 - width)
        part[:] = np.rint(begin * SCALE)
        high[start : start + 250_000] = np.rint((begin + width) * SCALE)
    return low, high


def rows(low: NDArray[np.int32], high: NDArray[np.int32]) -> pa.Table:
    count = len(low)
    names = pa.array([f"a{number}" for number in range(ATTRIBUTES)])
    attribute = pa.array(np.tile(np.arange(ATTRIBUTES, dtype=np.int8), count))
    return pa.table(
        {
            "id": np.repeat(np.arange(count), ATTRIBUTES),
            "attribute": pa.DictionaryArray.from_arrays(attribute, names),
            "low": low.ravel(),
            "high": high.ravel(),
        }
    )


def prepared(values: NDArray[np.int32]) -> EventBatch:
    batch = from_arrow(pa.table({f"a{number}": values[:, number].copy() for number in range(ATTRIBUTES)}))
    batch.cells()
    return batch
