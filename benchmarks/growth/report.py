"""Runs the measurements of growth, fits them, draws them, and writes "what to expect" and the model of a large cluster."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from rich.console import Console

from benchmarks.figures.results_file import provenance
from benchmarks.growth.cluster_check import MeasuredCluster, measure_cluster, part_of_workload
from benchmarks.growth.cluster_model import Cluster, ShardCosts, model_cluster
from benchmarks.growth.fitting import Fit, fit_power
from benchmarks.growth.measuring import measure_index, measure_updates
from benchmarks.growth.shard_plan import ShardPlan, observed, plan_shards, routes_of_rows
from ray_pubsub.index.bulk.predicate_table import PredicateTable
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.workloads import SparseTests, Workload, dexin, generate_ranges, generate_sparse

__all__ = ["report"]

EVENTS = 256
BILLION = 1_000_000_000
SHARDS = (64, 256, 1024)
SAMPLE = 100_000
CHECKED_SHARDS = 8
ERRORS = ("fullest shard", "shards an event visits", "events a second", "memory")
console = Console(width=120)


class Axis(NamedTuple):
    """One thing that grows."""

    name: str
    label: str
    sizes: Sequence[float]
    make: Callable[[float], Workload]


def dense(count: int, **changed: Any) -> Workload:
    """DEXIN's ranges without its points, which is W1."""
    setting = dexin(subscriptions=count, points=0.0, cardinality=1_000_000, events=EVENTS)
    return generate_ranges(setting.having(**changed))


def sparse(count: int, **changed: Any) -> Workload:
    return generate_sparse(SparseTests(subscriptions=count, events=EVENTS).having(**changed))


def axes(most: int) -> list[Axis]:
    sizes = [
        size for size in (3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000) if size <= most
    ]
    middle = min(100_000, most // 3)
    return [
        Axis("dense-n", "subscriptions, ranges on 10 attributes", sizes, lambda n: dense(int(n))),
        Axis("sparse-n", "subscriptions, 1 to 8 tests on 20,000 attributes", sizes, lambda n: sparse(int(n))),
        Axis("dense-m", f"attributes, {middle:,} subscriptions", (2, 5, 10, 20, 40), lambda m: dense(middle, attributes=int(m))),
        Axis("sparse-d", f"dimensions, {middle:,} subscriptions", (100, 1000, 10_000, 60_000),
             lambda d: sparse(middle, dimensions=int(d))),
        Axis("rate", f"matching rate, {middle:,} subscriptions", (0.001, 0.005, 0.02, 0.1),
             lambda rate: dense(middle, matching_rate=rate)),
    ]  # fmt: skip


def report(most: int, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    notes = provenance(f"growth to {most:,}")
    measured: dict[str, list[dict[str, Any]]] = {}
    with console.status("measuring") as status:
        for axis in axes(most):
            measured[axis.name] = []
            for size in axis.sizes:
                status.update(f"{axis.name} {size:g}")
                measured[axis.name].append({"axis": axis.name, "size": size} | measure_index(axis.make(size)))
        measured["updates"] = []
        for changes in (0, 1, 10, 100, 300):
            status.update(f"updates {changes}")
            row = measure_updates(dense(min(100_000, most // 3)), changes)
            measured["updates"].append({"axis": "updates", "size": changes} | row)
        status.update("a cluster in parts")
        checks = {name: check_cluster(measured[name], make(most)) for name, make in SHAPES.items()}
    write_csv(folder / "growth.csv", [row for rows in measured.values() for row in rows], notes)
    draw(axes(most), measured, notes, folder)
    lines = ["# Where cost grows", "", *(f"- {name}: {text}" for name, text in notes.items()), ""]
    lines += slopes(axes(most), measured) + update_lines(measured["updates"]) + expectations(measured)
    lines += cluster_lines(measured, checks)
    (folder / "growth.md").write_text("\n".join(lines) + "\n")
    console.print("\n".join(lines), markup=False)


def write_csv(path: Path, rows: list[dict[str, Any]], notes: dict[str, str]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as file:
        file.writelines(f"# {name}: {text}\n" for name, text in notes.items())
        writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {name: float(f"{v:.4g}") if isinstance(v, float) else v for name, v in row.items()} for row in rows
        )


MEASURES = {"batch_ms": "ms an event, in batches", "one_ms": "ms, one event", "build_s": "build, s", "bytes": "bytes"}


def slopes(chosen: list[Axis], measured: dict[str, list[dict[str, Any]]]) -> list[str]:
    lines = ["## Fitted growth", "", "cost = constant + factor · size^exponent, by least relative squares.", "",
             "| what grows | measure | fit | largest error |", "|---|---|---|---|"]  # fmt: skip
    for axis in chosen:
        for measure, title in MEASURES.items():
            rows = measured[axis.name]
            fit = fit_power([row["size"] for row in rows], [row[measure] for row in rows])
            lines.append(f"| {axis.label} | {title} | {fit} | {fit.error:.0%} |")
    return [*lines, ""]


def update_lines(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["## Changes between events", "", "| changes before each event | one event, ms | a change, ms | the worst change, ms |",
             "|---|---|---|---|"]  # fmt: skip
    for row in rows:
        lines.append(
            f"| {row['changes']} added, as many removed | {row['one_ms']:.3f} | {row['change_ms']:.4f} | {row['worst_change_ms']:.2f} |"
        )
    some = [row for row in rows if row["changes"]]
    fit = fit_power([row["changes"] for row in some], [row["one_ms"] for row in some])
    return [*lines, "", f"One event, by the changes before it: {fit} ms (largest error {fit.error:.0%}).", ""]


def expectations(measured: dict[str, list[dict[str, Any]]]) -> list[str]:
    lines = [
        "## What to expect on one core", "",
        "| subscriptions | ranges: events/s in batches | one event | memory | build | sparse: events/s | one event | memory | build |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for dense_row, sparse_row in zip(measured["dense-n"], measured["sparse-n"], strict=True):
        cells = [f"{dense_row['subscriptions']:,}"]
        for row in (dense_row, sparse_row):
            cells += [
                f"{1e3 / row['batch_ms']:,.0f}", f"{row['one_ms']:.3f} ms", f"{row['bytes'] / 2**20:,.0f} MB", f"{row['build_s']:.1f} s",
            ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


SHAPES: dict[str, Callable[[int], Workload]] = {"dense-n": dense, "sparse-n": sparse}


def check_cluster(points: list[dict[str, Any]], whole: Workload) -> tuple[Cluster, MeasuredCluster]:
    """Returns the largest size on a few shards: predicted from the smaller sizes and a sample a tenth as large, and measured."""
    sample = part_of_workload(whole, np.arange(whole.subscriptions // 10))
    predicted = model_cluster(shard_plan(sample, CHECKED_SHARDS), whole.subscriptions, costs_of(points[:-1], sample))
    return predicted, measure_cluster(whole, shard_plan(whole, CHECKED_SHARDS))


def cluster_lines(
    measured: dict[str, list[dict[str, Any]]], checks: dict[str, tuple[Cluster, MeasuredCluster]]
) -> list[str]:
    lines = ["## A billion subscriptions on many nodes, modelled", ""]
    heads = ("data", "shards (one core each)", "fullest shard", "shards an event visits", "events/s at most", "slowest shard, ms an event",
             "memory of all", "of the fullest", "network an event")  # fmt: skip
    rows = []
    for name, make in SHAPES.items():
        points, workload = measured[name], make(SAMPLE)
        held_out, (guess, memory_guess) = points[-1], predictions(points)
        lines.append(
            f"- {name}: without its largest size, {held_out['subscriptions']:,}, the fit predicts {guess:.4f} ms an event there; measured "
            f"{held_out['batch_ms']:.4f} ms (error {guess / held_out['batch_ms'] - 1:+.0%}); memory error "
            f"{memory_guess / held_out['bytes'] - 1:+.0%}."
        )
        predicted, found = checks[name]
        lines.append(
            f"- {name}: {held_out['subscriptions']:,} subscriptions on {CHECKED_SHARDS} shards, each of them built and measured; predicted "
            "from the smaller sizes and a sample a tenth as large, less measured: "
            + ", ".join(
                f"{what} {error:+.0%}" for what, error in zip(ERRORS, found.errors(predicted).values(), strict=True)
            )
            + ". The shards together found all matches."
        )
        costs = costs_of(points, workload)
        for shards in SHARDS:
            rows.append((name, model_cluster(shard_plan(workload, shards), BILLION, costs)))
    lines += ["", "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += [cluster_line(name, cluster) for name, cluster in rows]
    return [
        *lines,
        "",
        f"Placement and routing are the server's own code, on a sample of {SAMPLE:,} subscriptions that stands for all. A pivot is split "
        "over shards only from 256 subscriptions on, so the sample splits fewer than a billion would.",
    ]


def predictions(points: list[dict[str, Any]]) -> tuple[float, float]:
    """Time and memory of the largest size, predicted from the others."""
    known = points[:-1]
    size = points[-1]["subscriptions"]
    fits = [
        fit_power([row["subscriptions"] for row in known], [row[measure] for row in known])
        for measure in ("batch_ms", "bytes")
    ]
    return fits[0].at(size), fits[1].at(size)


def costs_of(points: list[dict[str, Any]], workload: Workload) -> ShardCosts:
    sizes = [row["subscriptions"] for row in points]
    time_fit = fit_power(sizes, [row["batch_ms"] for row in points])
    memory_fit: Fit = fit_power(sizes, [row["bytes"] for row in points])
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


def cluster_line(name: str, found: Cluster) -> str:
    return (
        f"| {name} | {found.shards} | {found.largest:,.0f} | {found.fan_out:.1f} | {found.events_per_second:,.0f} | "
        f"{found.slowest_ms:.3f} | {found.memory_gb:,.0f} GB | {found.largest_gb:.1f} GB | {found.network_bytes:,.0f} bytes |"
    )


def draw(chosen: list[Axis], measured: dict[str, list[dict[str, Any]]], notes: dict[str, str], folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": "growth", "font.size": 8, "axes.grid": True, "grid.alpha": 0.3}
    ):
        figure, grid = pyplot.subplots(
            len(MEASURES), len(chosen), figsize=(3.0 * len(chosen), 8.4), layout="constrained"
        )
        for column, axis in enumerate(chosen):
            rows = measured[axis.name]
            sizes = [row["size"] for row in rows]
            for line, (measure, title) in enumerate(MEASURES.items()):
                place, values = grid[line][column], [row[measure] for row in rows]
                fit = fit_power(sizes, values)
                between = np.geomspace(sizes[0], sizes[-1], 60)
                place.plot(between, [fit.at(size) for size in between], color="#bbbbbb", linewidth=3)
                place.plot(sizes, values, "o-", color="#d62728", markersize=4, linewidth=1)
                place.set(
                    xscale="log",
                    yscale="log",
                    title=f"∝ n^{fit.exponent:.2f}" if line else f"{axis.label}\n∝ n^{fit.exponent:.2f}",
                )
                if column == 0:
                    place.set_ylabel(title)
        figure.text(
            0, -0.01, f"{notes['processor']}, {notes['versions']}; grey: fitted", fontsize=6, color="#666666", va="top"
        )
        figure.savefig(folder / "growth.png", dpi=80, bbox_inches="tight")
        figure.savefig(folder / "growth.svg", bbox_inches="tight", metadata={"Date": None})
        pyplot.close(figure)
