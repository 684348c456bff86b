"""The document about growth, from the results alone: no number in it is typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.growth.axes import EVENTS, SHAPES, Axis
from benchmarks.growth.fitting import STEEPEST, fit_axis, fit_power
from benchmarks.growth.results import GrowthFile

__all__ = ["MEASURES", "growth_lines", "predictions"]

MEASURES = {"batch_ms": "ms an event, in batches", "one_ms": "ms, one event", "build_s": "build, s", "bytes": "bytes"}
CHECKED = {
    "largest": "fullest shard",
    "fan_out": "shards an event visits",
    "events_per_second": "events a second",
    "memory_gb": "memory",
}
NAMES = {"dense-n": "ranges", "sparse-n": "sparse"}


def growth_lines(results: GrowthFile, axes: Sequence[Axis]) -> list[str]:
    return [
        "# Where cost grows", "",
        "`python -m benchmarks growth` measures what matching, building and memory cost while something grows, fits curves, and models "
        "from them and from the server's own placement what does not fit on one machine. This page is written from "
        "[the measurements](growth.csv).", "",
        *(f"- {name}: {text}" for name, text in results.notes.items()), "",
        *expectations(results), *slopes(results, axes), *update_lines(results.of("updates")), *cluster_lines(results), *limits(),
    ]  # fmt: skip


def expectations(results: GrowthFile) -> list[str]:
    """What somebody who chooses hardware looks for first."""
    lines = [
        "## What to expect on one core", "",
        "Ranges: every subscription tests 10 attributes; sparse: 1 to 8 of 20,000 attributes, events of 60. A shard is a process on a "
        "core: choose as many shards as give each of them few enough subscriptions for the wanted rate, and leave twice the memory, "
        f"because blocks are rebuilt beside the old ones. Batches have {EVENTS} events; larger ones take less for each "
        "([How fast](../performance.md) has batches of 1,024). One event is matched alone, the best of three tries.", "",
        "| subscriptions of a shard | ranges: events/s in batches | one event | memory | build "
        "| sparse: events/s in batches | one event | memory | build |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for dense_row, sparse_row in zip(results.of("dense-n"), results.of("sparse-n"), strict=True):
        cells = [f"{dense_row['subscriptions']:,}"]
        for row in (dense_row, sparse_row):
            cells += [
                f"{1e3 / row['batch_ms']:,.0f}", f"{row['one_ms']:.3f} ms", f"{row['bytes'] / 2**20:,.0f} MB", f"{row['build_s']:.1f} s",
            ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def slopes(results: GrowthFile, axes: Sequence[Axis]) -> list[str]:
    lines = ["## Fitted growth", "",
             "cost = constant + factor · size^exponent, by least relative squares. Where that is wrong by more than half, the cost "
             "follows no power and the table says between what it lies: the default changes its engine, or few subscriptions are left "
             "to look at.", "",
             "![Growth](growth.png)", "", "| what grows | measure | fit | largest error |", "|---|---|---|---|"]  # fmt: skip
    for axis in axes:
        rows = results.of(axis.name)
        for measure, title in MEASURES.items():
            values = [row[measure] for row in rows]
            fit = fit_axis(axis.name, [row["size"] for row in rows], values)
            error = f"{fit.error:.0%}" if fit.holds else f"from {min(values):.3g} to {max(values):.3g}"
            lines.append(f"| {axis.label} | {title} | {fit} | {error} |")
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
    last = f"One event, by the changes before it: {fit} ms (largest error {fit.error:.0%})."
    return [*lines, "", *([last, ""] if fit.holds else [])]


def cluster_lines(results: GrowthFile) -> list[str]:
    lines = ["## A billion subscriptions on many nodes, modelled", "", "How wrong the model is:", ""]
    for name, called in NAMES.items():
        points = results.of(name)
        held_out, (guess, memory_guess) = points[-1], predictions(points)
        lines.append(
            f"- {called}: without its largest size, {held_out['subscriptions']:,}, the fit predicts {guess:.4f} ms an event there; "
            f"measured {held_out['batch_ms']:.4f} ms (error {guess / held_out['batch_ms'] - 1:+.0%}); memory error "
            f"{memory_guess / held_out['bytes'] - 1:+.0%}."
        )
        (predicted,), (found,) = (results.of(f"{name} cluster {part}") for part in ("predicted", "measured"))
        errors = [f"{what} {predicted[part] / found[part] - 1:+.0%}" for part, what in CHECKED.items()]
        lines.append(
            f"- {called}: {found['subscriptions']:,} subscriptions on {found['shards']} shards, placed by the server's own code, each "
            f"shard built and measured. Predicted from smaller sizes and a sample a tenth as large, against measured: "
            f"{', '.join(errors)}. "
            "The shards together found all matches."
        )
    lines += [
        "", "A billion, by that model:", "",
        "| data | shards (one core each) | fullest shard | shards an event visits | events/s at most | slowest shard, ms an event | "
        "memory of all | of the fullest | network an event |", "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, called in NAMES.items():
        for row in results.of(f"{name} billion"):
            lines.append(
                f"| {called} | {row['shards']} | {row['largest']:,.0f} | {row['fan_out']:.1f} | {row['events_per_second']:,.0f} | "
                f"{row['slowest_ms']:.3f} | {row['memory_gb']:,.0f} GB | {row['largest_gb']:.1f} GB | {row['network_bytes']:,.0f} bytes |"
            )
    return [*lines, "", *message_lines(results)]


def message_lines(results: GrowthFile) -> list[str]:
    lines = [
        "The coordinator's part, measured with the server's own frames in one process, batches of 256 events whose matches are spread "
        "over the shards:", "",
        "| data | subscriptions | shards asked | matches an event | request, bytes an event and shard | replies, bytes an event | "
        "coordinator, ms an event | events/s of one coordinator |", "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name in SHAPES:
        for row in results.of(f"{name} messages"):
            lines.append(
                f"| {NAMES[name]} | {row['subscriptions']:,} | {row['shards']} | {row['matches']:,.1f} | {row['request_bytes']:,.0f} | "
                f"{row['reply_bytes']:,.0f} | {row['coordinator_ms']:.4f} | {1e3 / row['coordinator_ms']:,.0f} |"
            )
    return [*lines, ""]


def limits() -> list[str]:
    return [
        "What the model leaves out: waiting in queues; system calls, TLS and the network's own delays; levels and deliveries. The "
        "coordinators' time above is what their own code takes for frames and routing, not what a machine does to send them. "
        "The sample that stands for a billion splits fewer pivots over shards than a billion would, because a pivot is split only from "
        "256 subscriptions on. Sizes beyond the largest measured one are extrapolated by the fits.",
    ]


def predictions(points: list[dict[str, Any]]) -> tuple[float, float]:
    """Time and memory of the largest size, predicted from the others."""
    known = points[:-1]
    size = points[-1]["subscriptions"]
    fits = [
        fit_power([row["subscriptions"] for row in known], [row[measure] for row in known], STEEPEST)
        for measure in ("batch_ms", "bytes")
    ]
    return fits[0].at(size), fits[1].at(size)
