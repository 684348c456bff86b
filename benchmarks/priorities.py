"""Priorities: what an event costs with 100, 10,000 and a million rules, beside a compiled scan of all rules; one core.

Rules are boxes over 5 attributes on a grid of 20 steps each (as in the paper's experiment, so that false positives are the filters'),
three levels above the default. Events are prepared EventBatches of 4,096, every batch different; reading dicts or Arrow is not in the
times. An event matches at the stated rate: if so it is drawn inside a rule (chosen uniformly, or by Zipf's law), if not outside all of
them.

    SI, filters     PriorityRules(confirm=False): a level may be too high, at the rate stated (1 %)
    SI, confirmed   PriorityRules(confirm=True): exact
                    both without the signature cache, whose hits depend on how much the events repeat; it has a table of its own
    SF              all rules in columns, highest level first, blocks of 512 with SIMD, stopped at the first match: exact

python -m benchmarks priorities [--quick]
"""

from __future__ import annotations

import argparse
import gc
import time
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit
from rich.console import Console
from rich.table import Table

import ray_pubsub
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.events import read_events
from ray_pubsub.workloads import LEVELS, RULE_ATTRIBUTES, PriorityRuleSet, priority_events, priority_rules

ATTRIBUTES, RATE, BATCH = RULE_ATTRIBUTES, 0.01, 4096
MATCHING_RATES = (0.0, 0.25, 0.5, 0.75, 1.0)
console = Console(width=130)


def batches_of(values: Any) -> list[EventBatch]:
    found = []
    for start in range(0, len(values), BATCH):
        part = values[start : start + BATCH]
        columns = {f"a{place}": np.ascontiguousarray(part[:, place]) for place in range(ATTRIBUTES)}
        batch = read_events(pa.table(columns))
        batch.cells()
        found.append(batch)
    return found


@njit(nogil=True, cache=True)
def _scan(low, high, level, values, out):
    """Blocks of 512 rules, attribute by attribute over the whole block (which LLVM turns into SIMD), until a block has a match."""
    count = len(level)
    alive = np.empty(512, np.uint8)
    for event in range(len(values)):
        out[event] = 0
        for start in range(0, count, 512):
            size = min(512, count - start)
            found = np.uint8(0)
            for place in range(size):
                value = values[event, 0]
                alive[place] = (low[0, start + place] <= value) & (value < high[0, start + place])
            for attribute in range(1, low.shape[0]):
                value = values[event, attribute]
                found = np.uint8(0)
                for place in range(size):
                    alive[place] &= (low[attribute, start + place] <= value) & (value < high[attribute, start + place])
                    found |= alive[place]
                if not found:
                    break
            if found:
                for place in range(size):
                    if alive[place]:
                        out[event] = level[start + place]
                        break
                break


class Scan:
    """SF: rules in columns, highest level first."""

    def __init__(self, rules: PriorityRuleSet) -> None:
        order = np.argsort(-rules.level, kind="stable")
        self.low = np.ascontiguousarray(rules.low[order].T.astype(np.float32))
        self.high = np.ascontiguousarray(rules.high[order].T.astype(np.float32))
        self.level = rules.level[order].astype(np.uint8)

    def levels(self, values: Any) -> Any:
        out = np.empty(len(values), np.uint8)
        _scan(self.low, self.high, self.level, values.astype(np.float32), out)
        return out


def microseconds(work: Any, batches: list[Any], repeats: int) -> tuple[float, float]:
    """Median and best over the batches of the time per event."""
    times = []
    for _ in range(repeats):
        for batch in batches:
            start = time.perf_counter()
            work(batch)
            times.append((time.perf_counter() - start) / BATCH * 1e6)
    return float(np.median(times)), min(times)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks priorities", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 and 10,000 rules, fewer batches")
    options = parser.parse_args(arguments)
    sizes = [100, 10_000] if options.quick else [100, 10_000, 1_000_000]
    count = 4 if options.quick else 24
    sizes_table(sizes, count)
    vectors_table(10_000, count)
    rates_table(10_000)
    single_table(10_000)


def sizes_table(sizes: list[int], count: int) -> None:
    """The size of the rule set, the events' distribution and their matching rate."""
    table = Table(title=f"µs an event, batches of {BATCH:,}, one core (median, best in brackets)", title_justify="left")
    for column in ("rules", "events", "matching", "SI, filters", "too high", "SI, confirmed", "SF", "SF ÷ SI"):
        table.add_column(column, justify="right")
    built = Table(title="Building", title_justify="left")
    for column in ("rules", "filters s", "confirmed s", "signatures", "filter bits", "bytes/rule", "confirmed"):
        built.add_column(column, justify="right")
    everything: dict[tuple[int, str, float], tuple[float, float]] = {}
    kept: dict[int, tuple[PriorityRuleSet, ray_pubsub.PriorityRules]] = {}
    for size in sizes:
        rng = np.random.default_rng(size)
        rules = priority_rules(size, rng)
        filters, filters_s = build(rules, confirm=False)
        confirmed, confirmed_s = build(rules, confirm=True)
        scan = Scan(rules)
        stats = filters.stats()
        built.add_row(
            f"{size:,}",
            f"{filters_s:.2f}",
            f"{confirmed_s:.2f}",
            f"{stats.vectors[0].signatures:,}",
            f"{sum(each.bits for each in stats.filters.values()):,}",
            f"{sum(stats.bytes.values()) / size:,.0f}",
            f"{sum(confirmed.stats().bytes.values()) / size:,.0f}",
        )
        for zipf in (False, True):
            for rate in MATCHING_RATES:
                values = priority_events(rules, count * BATCH, rate, zipf, rng)
                batches = batches_of(values)
                expected = rules.grid[tuple(values.astype(int).T)]
                wrong = check(filters, confirmed, scan, batches, values, expected)
                quick = microseconds(filters.levels_of, batches, 3)
                exact = microseconds(confirmed.levels_of, batches[:2], 1)
                sample = values[: max(32, min(BATCH, 20_000_000 // size))]
                start = time.perf_counter()
                scan.levels(sample)
                slow = (time.perf_counter() - start) / len(sample) * 1e6
                name = "Zipf" if zipf else "uniform"
                everything[size, name, rate] = quick
                table.add_row(
                    f"{size:,}",
                    name,
                    f"{rate:.0%}",
                    f"{quick[0]:.3f} ({quick[1]:.3f})",
                    f"{wrong:.3%}",
                    f"{exact[0]:.2f} ({exact[1]:.2f})",
                    f"{slow:,.1f}",
                    f"{slow / quick[0]:,.0f}",
                )
        kept[size] = (rules, filters)
        del confirmed, scan
        gc.collect()
    console.print(table)
    console.print(built)
    slowest = max(each[0] for each in everything.values())
    console.print(f"slowest median of the filters: {slowest:.3f} µs an event")
    ratios_table(kept[sizes[0]], kept[sizes[-1]], count)


def ratios_table(
    few: tuple[PriorityRuleSet, ray_pubsub.PriorityRules],
    many: tuple[PriorityRuleSet, ray_pubsub.PriorityRules],
    count: int,
) -> None:
    """Many rules beside few, batch by batch in turns, so that whatever else the machine does disturbs both alike."""
    title = f"{many[0].count:,} rules ÷ {few[0].count:,} rules, SI, filters, in turns"
    table = Table(title=title, title_justify="left")
    for column in ("events", "matching", "few µs", "many µs", "ratio of medians", "ratio of best"):
        table.add_column(column, justify="right")
    rng = np.random.default_rng(11)
    every = []
    for zipf in (False, True):
        for rate in MATCHING_RATES:
            sides = [
                (each, batches_of(priority_events(rules, count * BATCH, rate, zipf, rng)))
                for rules, each in (few, many)
            ]
            times: tuple[list[float], list[float]] = ([], [])
            for _ in range(5):
                for number in range(count):
                    for (rules, batches), found in zip(sides, times, strict=True):
                        start = time.perf_counter()
                        rules.levels_of(batches[number])
                        found.append((time.perf_counter() - start) / BATCH * 1e6)
            medians, bests = [float(np.median(each)) for each in times], [min(each) for each in times]
            every.append((medians[1] / medians[0], bests[1] / bests[0]))
            table.add_row(
                "Zipf" if zipf else "uniform",
                f"{rate:.0%}",
                f"{medians[0]:.3f} ({bests[0]:.3f})",
                f"{medians[1]:.3f} ({bests[1]:.3f})",
                f"{every[-1][0]:.2f}",
                f"{every[-1][1]:.2f}",
            )
    console.print(table)
    overall = [float(np.median([each[place] for each in every])) for place in (0, 1)]
    console.print(f"over all rows: ratio of medians {overall[0]:.2f}, of best {overall[1]:.2f}")


def build(rules: PriorityRuleSet, *, confirm: bool) -> tuple[ray_pubsub.PriorityRules, float]:
    found = ray_pubsub.PriorityRules(LEVELS, confirm=confirm, false_positive_rate=RATE, cache=0)
    table = rules.table()
    start = time.perf_counter()
    assert found.add_predicates(table).added == rules.count
    return found, time.perf_counter() - start


def check(filters: Any, confirmed: Any, scan: Scan, batches: list[EventBatch], values: Any, expected: Any) -> float:
    """Filters never too low, too high at the stated rate; confirmation and scan exact. Returns the part that is too high."""
    found = np.concatenate([filters.levels_of(batch).levels for batch in batches])
    assert (found >= expected).all(), "a false negative"
    wrong = float((found > expected).mean())
    assert wrong <= RATE + 5 * np.sqrt(RATE / len(found)), wrong
    assert np.array_equal(confirmed.levels_of(batches[0]).levels, expected[:BATCH])
    sample = max(32, min(BATCH, 20_000_000 // len(scan.level)))
    assert np.array_equal(scan.levels(values[:sample]), expected[:sample])
    return wrong


def vectors_table(size: int, count: int) -> None:
    """The cost depends on the number of signature vectors: sets of attributes that rules use. Rules are narrow (a 64th of a step), so that
    few events find the highest level in the first vectors and are done."""
    table = Table(title=f"Signature vectors, {size:,} narrow rules", title_justify="left")
    for column in ("vectors", "lookups", "SI, filters µs", "with cache, Zipf µs", "hit rate"):
        table.add_column(column, justify="right")
    for vectors in (1, 5, 31):
        rng = np.random.default_rng(vectors)
        rules = priority_rules(size, rng)
        sets = [[place for place in range(ATTRIBUTES) if (31 - number) >> place & 1] for number in range(vectors)]
        rows = rules.table()
        low = rules.low.ravel() + 0.5
        rows = rows.set_column(3, "low", pa.array(low)).set_column(4, "high", pa.array(low + 1 / 64))
        used = np.zeros((size, ATTRIBUTES), dtype=bool)
        for number, chosen in enumerate(sets):
            used[number::vectors, chosen] = True
        times = []
        for zipf, cache in ((False, 0), (True, 1 << 16)):
            found = ray_pubsub.PriorityRules(LEVELS, confirm=False, cache=cache)
            found.add_predicates(rows.filter(pa.array(used.ravel())))
            full = PriorityRuleSet(rules.level, rules.low, rules.high, np.zeros_like(rules.grid))
            batches = batches_of(priority_events(full, count * BATCH, 0.5, zipf, rng))
            assert found.measure(batches[0]).missed == 0
            found.levels_of(batches[0])
            times.append(microseconds(found.levels_of, batches, 3)[0])
        stats = found.stats()
        table.add_row(
            f"{len(stats.vectors)}",
            f"{stats.lookups_per_event}",
            f"{times[0]:.3f}",
            f"{times[1]:.3f}",
            f"{stats.cache.hit_rate:.0%}",
        )
    console.print(table)


def rates_table(size: int) -> None:
    """The paper's Table 3."""
    table = Table(title=f"False positives, {size:,} rules, 10 batches of uniform events", title_justify="left")
    for column in (
        "target",
        "matched",
        "unmatched",
        "SI result",
        "false positives",
        "rate",
        "theory",
        "discretization",
    ):
        table.add_column(column, justify="right")
    rng = np.random.default_rng(3)
    rules = priority_rules(size, rng)
    values = priority_events(rules, 10 * BATCH, 0.3, False, rng)
    columns = pa.table({f"a{place}": np.ascontiguousarray(values[:, place]) for place in range(ATTRIBUTES)})
    expected = rules.grid[tuple(values.astype(int).T)]
    for rate in (0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5):
        found = ray_pubsub.PriorityRules(LEVELS, confirm=False, false_positive_rate=rate)
        found.add_predicates(rules.table())
        measured = found.measure(columns)
        assert measured.missed == 0
        assert measured.matched == int((expected > 0).sum())
        theory = found.stats().expected_rate
        table.add_row(
            f"{rate}",
            f"{measured.matched:,}",
            f"{measured.unmatched:,}",
            f"{measured.reported:,}",
            f"{measured.false_positives:,}",
            f"{measured.filter_rate:.3%}",
            f"{theory:.3%}",
            f"{measured.discretization_rate:.3%}",
        )
    console.print(table)


def single_table(size: int) -> None:
    """One event, one rule at a time, from Python objects."""
    table = Table(title=f"One at a time, {size:,} rules (median)", title_justify="left")
    for column in ("", "SI, filters", "SI, confirmed"):
        table.add_column(column, justify="left" if not column else "right")
    rng = np.random.default_rng(5)
    rules = priority_rules(size, rng)
    values = priority_events(rules, 400, 0.5, False, rng)
    expected = rules.grid[tuple(values.astype(int).T)]
    dicts = [{f"a{place}": value for place, value in enumerate(row)} for row in values.tolist()]
    texts = [
        " and ".join(f"a{place} >= {low} and a{place} < {low + 1}" for place, low in enumerate(row))
        for row in rules.low[:200].tolist()
    ]
    rows: dict[str, list[str]] = {"priority(dict)": [], "add(id, level, text)": [], "remove(id)": []}
    for confirm in (False, True):
        found, _ = build(rules, confirm=confirm)
        found.add("first", "high", texts[0])
        answers = [LEVELS.index(found.priority(event)) for event in dicts]
        assert answers == expected.tolist() if confirm else (np.array(answers) >= expected).all()
        works: dict[str, list[partial[Any]]] = {
            "priority(dict)": [partial(found.priority, event) for event in dicts],
            "add(id, level, text)": [partial(found.add, -1 - n, "high", text) for n, text in enumerate(texts)],
            "remove(id)": [partial(found.remove, -1 - n) for n in range(len(texts))],
        }
        for name, each in works.items():
            times = []
            for work in each:
                start = time.perf_counter()
                work()
                times.append((time.perf_counter() - start) * 1e6)
            rows[name].append(f"{np.median(times):,.0f} µs")
    for name, cells in rows.items():
        table.add_row(name, *cells)
    console.print(table)
