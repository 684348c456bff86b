"""Generated settings: how much slower auto is than the best single engine, and than a compiled scan and compiled counting.

A line per setting: which segments auto chose, its time, the best engine and auto's time divided by that engine's (its regret), and how
many times as long the scan and counting take. All engines' results are compared with the scan's.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

import ray_pubsub
from benchmarks.matching import index_of
from benchmarks.rules.references import Counting, Scan, rule_arrays
from benchmarks.rules.report import Report
from benchmarks.rules.sizes import Sizes
from ray_pubsub.engines.registry import ENGINES
from ray_pubsub.engines.selection.cost_formulas import MOST_DENSE_COLUMNS
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.workloads import GeneratedRules, Setting, generate, settings

SINGLE, COMPARED, SLOW = 24, 40, 32
WAYS = ("batch", "one event")
Work = tuple[Callable[[], object], int]
"""What is timed, and how many events it matches."""
Works = tuple[Work, Work]
"""A batch, and one event after the other."""


def run(report: Report, sizes: Sizes) -> None:
    chosen = settings(sizes.settings, sizes.largest_setting)
    table = Table(title="µs an event: batch of 256 / one event", title_justify="left")
    for column in ("setting", "auto", "µs", "best engine", "regret", "scan ÷", "counting ÷"):
        table.add_column(column, justify="left" if column in ("setting", "auto", "best engine") else "right")
    regrets, beside = [], []
    for place, setting in enumerate(chosen):
        report.step(f"regret: {place + 1} of {len(chosen)}, {setting}")
        times, engines = measured(setting, sizes.rounds)
        others = {name: each for name, each in times.items() if name not in ("auto", "scan", "counting")}
        best = [min(others, key=lambda name, way=way: others[name][way]) for way in (0, 1)]  # type: ignore[misc]
        regrets.append([times["auto"][way] / others[best[way]][way] for way in (0, 1)])
        beside.append([times[name] / times["auto"] for name in ("scan", "counting")])
        table.add_row(
            str(setting), engines, pair(times["auto"], ".1f"), f"{best[0]} / {best[1]}", pair(regrets[-1], ".2f"),
            pair(beside[-1][0], ".1f"), pair(beside[-1][1], ".1f"),
        )  # fmt: skip
        gc.collect()
    report.table(table)
    slower = (np.array(beside) < 1).any(axis=1).sum(axis=0)
    for way, name in enumerate(WAYS):
        of_way = np.array(regrets)[:, way]
        worst = f"median {np.median(of_way):.2f}, 9 in 10 within {np.percentile(of_way, 90):.2f}"
        report.line(f"worst regret, {name}", float(of_way.max()), "times", must=1.2, more=False, note=worst)
        note = "the references get coded events and give numbers, not ids"
        report.line(
            f"slower than scan or counting, {name}",
            int(slower[way]),
            f"of {len(chosen)}",
            must=0,
            more=False,
            note=note,
        )


def pair(values: Any, form: str) -> str:
    return f"{values[0]:{form}} / {values[1]:{form}}"


def measured(setting: Setting, rounds: int) -> tuple[dict[str, Any], str]:
    """Per system the microseconds of an event of a batch and of one event, and what auto chose. Every engine is measured in turns with
    auto, and its time scaled by auto's: what else the machine does then harms both."""
    rules = generate(setting)
    arrays = rule_arrays(rules)
    scan, counting = Scan(arrays), Counting(arrays, setting.attributes)
    rows = [np.ascontiguousarray(row) for row in rules.events]
    expected = [np.sort(scan.match(row)).tolist() for row in rows[:COMPARED]]
    assert [np.sort(counting.match(row)).tolist() for row in rows[:COMPARED]] == expected
    batch = from_dicts(rules.event_dicts())
    singles = [from_dicts([event]) for event in rules.event_dicts()[:SINGLE]]

    def ours(index: ray_pubsub.MatchIndex) -> Works:
        found = index.match_many(batch)
        assert [sorted(found[place]) for place in range(COMPARED)] == expected, f"a result differs: {setting}"
        return (lambda: index.match_many(batch), batch.size), (
            lambda: [index.match_many(one) for one in singles],
            SINGLE,
        )

    def reference(match: Callable[[Any], Any]) -> Works:
        work: Work = (lambda: [match(row) for row in rows[:SLOW]], SLOW)
        return work, work

    references = {"scan": reference(scan.match), "counting": reference(counting.match)}
    auto = built("auto", rules)
    first = ours(auto)
    times: dict[str, Any] = {"auto": in_turns(first, first, rounds)[0]}
    for name in [*references, *(name for name in ENGINES if name not in ("auto", "scan"))]:
        if name == "dense" and setting.attributes > MOST_DENSE_COLUMNS:
            continue
        works = references[name] if name in references else ours(built(name, rules))
        mine, other = in_turns(first, works, rounds)
        times[name] = times["auto"] * other / mine
    return times, ", ".join(sorted({block.engine for block in auto.stats().blocks})) or "tail"


def in_turns(one: Works, other: Works, rounds: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Microseconds an event of two systems: the fastest of some rounds in which they take turns."""
    best = np.full((2, 2), np.inf)
    for _ in range(rounds + 1):
        for place, works in enumerate((one, other)):
            for way, (work, events) in enumerate(works):
                start = time.thread_time()
                work()
                best[place, way] = min(best[place, way], (time.thread_time() - start) * 1e6 / events)
    return best[0], best[1]


def built(engine: str, rules: GeneratedRules) -> ray_pubsub.MatchIndex:
    index = index_of(engine)
    index.add_predicates(rules.predicates())
    return index
