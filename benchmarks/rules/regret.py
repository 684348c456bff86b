"""How much slower auto is than the best single engine, and than a compiled scan and compiled counting: on generated settings (a Latin
hypercube over sizes, attributes, sets, ranges, patterns, skew, matches) and on classes of rules as users write them.

A line per setting, the worst first: auto's blocks, its microseconds an event, the best engine, and auto's time divided by that
engine's (its regret), at first and after the index has followed the stream; how many times as long the scan and counting take; what
building took. What is compared, and how, is in race.py. The model was looked at with seed 1 while it was made; any other seed is held out.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from rich.table import Table

from benchmarks.rules.race import Pair, Raced, race
from benchmarks.rules.report import Report
from benchmarks.rules.sizes import Sizes
from ray_pubsub.engines.vector_cache import cache
from ray_pubsub.workloads import CLASSES, GeneratedRules, generate, settings, user_rules

MUST, NOISE = 1.2, 1.05
"""The largest regret; by how much two measurements of the same differ."""
WAYS = ("batch", "one event")
LARGE = 50_000


class Case(NamedTuple):
    name: str
    rules: int
    make: Callable[[int], GeneratedRules]
    """Makes this many of the rules."""


def run(report: Report, sizes: Sizes) -> None:
    enabled, cache.ENABLED = cache.ENABLED, False  # the same events come again and again
    try:
        rows = measured(report, sizes, cases(sizes))
    finally:
        cache.ENABLED = enabled
    rows.sort(key=lambda row: -float(row[1].regret.max()))
    report.table(tabulated(rows, sizes))
    summarised(report, [raced for _, raced in rows])


def cases(sizes: Sizes) -> list[Case]:
    found = [
        Case(
            str(setting), setting.rules,
            lambda count, setting=setting: generate(setting.of_size(count), sizes.regret_batch),  # type: ignore[misc]
        )
        for setting in settings(sizes.settings, sizes.largest_setting, sizes.seed)
    ]  # fmt: skip
    for name in CLASSES:
        found += [
            Case(
                f"{name}, {count:,}", count,
                lambda count, name=name: user_rules(name, count, events=sizes.regret_batch, seed=sizes.seed),  # type: ignore[misc]
            )
            for count in sizes.classes
        ]  # fmt: skip
    return found


def measured(report: Report, sizes: Sizes, cases: list[Case]) -> list[tuple[Case, Raced]]:
    start, rows = time.perf_counter(), []
    # The large ones last: what is left is then better known from what was done.
    for place, case in enumerate(sorted(cases, key=lambda case: case.rules)):
        report.step(f"regret: {place + 1} of {len(cases)}, {time.perf_counter() - start:.0f} s so far: {case.name}")
        raced = race(case.make, case.rules, sizes.race_seconds)
        rows.append((case, raced))
        if not report.console.is_terminal:
            beside = np.minimum(raced.scan, raced.counting)
            figures = f"regret {pair(raced.regret, '.2f')}, a program beside it {pair(beside, '.2f')}"
            print(f"{case.name}: {raced.blocks}, {figures}, {raced.times}", flush=True)
        gc.collect()
    return rows


def tabulated(rows: list[tuple[Case, Raced]], sizes: Sizes) -> Table:
    title = f"µs an event: batch of {sizes.regret_batch} / one event; seed {sizes.seed}"
    table = Table(title=title, title_justify="left")
    for column in (
        "setting",
        "auto",
        "µs",
        "best engine",
        "regret",
        "followed",
        "scan ÷",
        "counting ÷",
        "bare ÷",
        "build s",
        "bytes",
    ):
        table.add_column(column, justify="left" if column in ("setting", "auto", "best engine") else "right")
    for case, raced in rows:
        table.add_row(
            case.name, raced.blocks, pair(raced.auto, ".1f"), "/".join(raced.best), pair(raced.regret, ".2f"),
            "" if raced.followed is None else f"{raced.followed_blocks} {pair(raced.followed, '.2f')}",
            pair(raced.scan, ".1f"), pair(raced.counting, ".1f"), pair(raced.bare, ".1f"), f"{raced.build:.1f}", f"{raced.bytes:.0f}",
        )  # fmt: skip
    return table


def pair(values: Pair, form: str) -> str:
    return f"{values[0]:{form}} / {values[1]:{form}}"


def summarised(report: Report, rows: list[Raced]) -> None:
    beside = np.array([np.minimum(row.scan, row.counting) for row in rows])
    for way, name in enumerate(WAYS):
        for what, regrets in (
            ("regret", np.array([row.regret[way] for row in rows])),
            ("regret once the stream is known", np.array([row.settled[way] for row in rows])),
            ("regret against engines that can be chosen", np.array([row.public[way] for row in rows])),
        ):
            half, most, worst = np.percentile(regrets, [50, 90, 100])
            over = int((regrets > MUST).sum())
            note = f"median {half:.2f}, 9 in 10 within {most:.2f}; {over} of {len(rows)} over {MUST}"
            report.line(f"worst {what}, {name}", float(worst), "times", must=MUST, more=False, note=note)
        for what, ratio, must in (
            ("a program with a scan or counting", beside[:, way], 0),
            ("the bare kernels, given numbers", np.array([row.bare[way] for row in rows]), None),
        ):
            slower = ratio * NOISE < 1
            lag = max((row.auto[way] * (1 - each) for row, each in zip(rows, ratio, strict=True)), default=0.0)
            note = f"the worst {1 / ratio.min():.2f} times, at most by {lag:.1f} µs" if slower.any() else ""
            report.line(
                f"slower than {what}, {name}", int(slower.sum()), f"of {len(rows)}", must=must, more=False, note=note
            )
    large = [row for row in rows if row.rules >= LARGE]
    if large:  # a small build says little of a large one: reading the table and the first kernels count too
        slowest = max(large, key=lambda row: row.build / row.rules)
        rate, note = slowest.build * 1e6 / slowest.rules, f"{slowest.rules:,} rules; with at least {LARGE:,}"
        report.line("slowest build", rate, "s a million", must=60, more=False, note=note)
