"""Runs the measurements of growth, draws them, and writes the document: "what to expect" and the model of a large cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console

from benchmarks.growth.axes import SHAPES, axes_to, dense, middle_of
from benchmarks.growth.cluster_check import measure_cluster, part_of_workload
from benchmarks.growth.cluster_model import ShardCosts, model_cluster
from benchmarks.growth.document import growth_lines
from benchmarks.growth.drawing import draw
from benchmarks.growth.fitting import STEEPEST, Fit, fit_power
from benchmarks.growth.measuring import measure_index, measure_updates
from benchmarks.growth.messages import SHARDS_ASKED, measure_messages
from benchmarks.growth.results import GrowthFile
from benchmarks.growth.shard_plan import ShardPlan, observed, plan_shards, routes_of_rows
from ray_pubsub.index.bulk.predicate_table import PredicateTable
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.workloads import Workload

__all__ = ["report"]

BILLION = 1_000_000_000
SHARDS = (64, 256, 1024)
SAMPLE = 100_000
CHECKED_SHARDS, MOST_CHECKED = 8, 1_000_000
FIRST = 2000
"""Subscriptions of an index that is built before everything else, so that no figure has the loading of kernels in it."""
CHANGES = (0, 1, 10, 100, 300)
console = Console(width=120)


def report(most: int, folder: Path) -> None:
    results = GrowthFile(folder / "growth.csv", f"growth to {most:,}")
    with console.status("measuring") as status:
        for make in SHAPES.values():
            measure_index(make(FIRST))
        measure_changes(FIRST, CHANGES[-1])
        for axis in axes_to(most):
            for size in axis.sizes:
                status.update(f"{axis.name} {size:g}")
                results.measured(axis.name, size, partial(measure_made, axis.make, size))
        for changes in CHANGES:
            status.update(f"updates {changes}")
            results.measured("updates", changes, partial(measure_changes, middle_of(most), changes))
        for name, make in SHAPES.items():
            for shards in SHARDS_ASKED:
                status.update(f"messages of {name} to {shards} shards")
                results.measured(f"{name} messages", shards, partial(measure_messages, make, SAMPLE, shards))
            status.update("a cluster in parts")
            check_cluster(results, name, min(most, MOST_CHECKED))
            status.update("a billion")
            model_billion(results, name)
    draw(axes_to(most), results, folder)
    lines = growth_lines(results, axes_to(most))
    (folder / "growth.md").write_text("\n".join(lines) + "\n")
    console.print("\n".join(lines), markup=False)


def measure_made(make: Callable[[float], Workload], size: float) -> dict[str, Any]:
    return measure_index(make(size))


def measure_changes(subscriptions: int, changes: int) -> dict[str, Any]:
    return measure_updates(dense(subscriptions), changes)


def check_cluster(results: GrowthFile, name: str, size: int) -> None:
    """A size on a few shards: predicted from smaller sizes and a sample a tenth as large, and measured."""
    points = [row for row in results.of(name) if row["subscriptions"] < size]

    def predicted() -> dict[str, Any]:
        sample = part_of_workload(SHAPES[name](size), np.arange(size // 10))
        return asdict(model_cluster(shard_plan(sample, CHECKED_SHARDS), size, costs_of(points, sample)))

    def measured() -> dict[str, Any]:
        whole = SHAPES[name](size)
        found = measure_cluster(whole, shard_plan(whole, CHECKED_SHARDS))
        return found._asdict() | {"subscriptions": size, "shards": CHECKED_SHARDS}

    results.measured(f"{name} cluster predicted", size, predicted)
    results.measured(f"{name} cluster measured", size, measured)


def model_billion(results: GrowthFile, name: str) -> None:
    workload = SHAPES[name](SAMPLE)
    costs = costs_of(results.of(name), workload)
    for shards in SHARDS:
        plan = shard_plan(workload, shards)
        results.measured(f"{name} billion", shards, partial(modelled, plan, costs))


def modelled(plan: ShardPlan, costs: ShardCosts) -> dict[str, Any]:
    return asdict(model_cluster(plan, BILLION, costs))


def costs_of(points: list[dict[str, Any]], workload: Workload) -> ShardCosts:
    sizes = [row["subscriptions"] for row in points]
    time_fit = fit_power(sizes, [row["batch_ms"] for row in points], STEEPEST)
    memory_fit: Fit = fit_power(sizes, [row["bytes"] for row in points], STEEPEST)
    largest = points[-1]
    return ShardCosts(time_fit, memory_fit, event_bytes(workload), largest["matches"] / largest["subscriptions"])


def event_bytes(workload: Workload) -> float:
    """Of an event in an Arrow batch; sparse events as pairs of an attribute's number and a value."""
    dicts = workload.event_dicts()
    if workload.attributes <= 64:
        return float(pa.Table.from_pylist(dicts).nbytes / len(dicts))
    return float(len(workload.event_value) * 12 / workload.events)


def shard_plan(workload: Workload, shards: int) -> ShardPlan:
    dicts = workload.event_dicts()
    frequencies = observed(from_dicts(dicts))
    routes = routes_of_rows(PredicateTable(workload.predicates()), frequencies)
    return plan_shards(routes, np.arange(workload.subscriptions), [list(event) for event in dicts], shards, frequencies)
