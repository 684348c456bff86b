"""One set of subscriptions and events on every engine, as long as the time lasts, and its plan on more shards."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import ray_pubsub
from benchmarks.growth.shard_plan import observed, plan_shards, routes_of_rows, routes_of_texts
from benchmarks.quick.user_data import Subscriptions, UserDataError, read_event_file, read_subscription_file
from ray_pubsub.engines.registry import engine_names
from ray_pubsub.index.bulk.predicate_table import PredicateTable
from ray_pubsub.model.events import read_events
from ray_pubsub.workloads import dense, segments, sparse

__all__ = ["Budget", "Data", "compare", "generated", "given"]

SAMPLE_SUBSCRIPTIONS, SAMPLE_EVENTS = 2000, 20
"""What the specification is asked, which takes microseconds a subscription and event."""
MOST_EVENTS, SINGLES, BATCH = 4096, 50, 512
MOST_OWN = 65_536
"""Of own events, whose repetitions count."""
SHARDS = (1, 2, 4, 8, 16)
GENERATED = 50_000
console = Console(width=130)


@dataclass(frozen=True, slots=True)
class Data:
    name: str
    subscriptions: Subscriptions
    events: Any
    """As `match_many` takes them."""
    own: bool = False
    """Whether they are a user's, whose order and repetitions mean something."""


class Budget:
    """Seconds by the clock, counted from now on."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._end = clock, clock() + seconds

    def left(self) -> bool:
        return self._clock() < self._end


def given(subscriptions: Path, events: Path) -> Data:
    """Returns the user's own."""
    found, rows = read_subscription_file(subscriptions), read_event_file(events)
    if not len(found) or not len(rows):
        raise UserDataError(
            f"{subscriptions} has {len(found)} subscriptions and {events} {len(rows)} events; both need some"
        )
    return Data(f"{subscriptions.name}, {len(found):,} subscriptions", found, rows, own=True)


def generated() -> Iterator[Data]:
    """Three sorts of data, for which different engines are best."""
    for workload, title in (
        (dense(GENERATED), "ranges on 10 attributes (W1)"),
        (sparse(GENERATED), "1 to 8 tests on 20,000 attributes (W3)"),
    ):
        held = Subscriptions(list(range(GENERATED)), [], workload.predicates())
        yield Data(f"{title}, {GENERATED:,} subscriptions", held, workload.event_dicts())
    audience = segments(GENERATED // 5)
    texts = list(audience.texts())
    yield Data(
        f"audience segments with sets (W4), {len(texts):,} subscriptions",
        Subscriptions(list(range(len(texts))), texts),
        [audience.event(number) for number in range(200)],
    )


def compare(data: Data, budget: Budget) -> None:
    """Prints a table of engines and one of shards."""
    events = data.events[: MOST_OWN if data.own else MOST_EVENTS]
    table = Table(title=data.name, title_justify="left")
    table.add_column("engine", no_wrap=True)
    for column in (
        "batch ms/event",
        "events/s",
        "one event ms",
        "p99 ms",
        "build s",
        "bytes each",
        "matches/event",
        "cache hits",
    ):
        table.add_column(column, justify="right")
    rates: dict[str, float] = {}
    answers: set[int] = set()
    for engine in [name for name in engine_names() if name != "scan"]:
        if rates and not budget.left():
            table.add_row(f"{engine}: no time left", *[""] * 8)
            continue
        index, build, refused = filled(engine, data.subscriptions)
        if refused and not rates:
            console.print(f"{len(refused):,} subscriptions were refused, the first: {refused[0]}", markup=False)
        check(index, data, events)
        row, rate, matches = timed(index, data, events)
        rates[engine] = rate
        answers.add(matches)
        name = engine
        if engine == "auto":
            name = f"auto ({', '.join(sorted({block.engine for block in index.stats().blocks})) or 'tail'})"
        table.add_row(name, *row[:4], f"{build:.2f}", f"{index.nbytes / max(1, len(index)):.0f}", *row[4:])
        del index
        gc.collect()
    console.print(table)
    assert len(answers) == 1, f"engines differ in their matches: {answers}"
    best = max(rates, key=rates.__getitem__)
    console.print(
        f"fastest in batches: [bold]{best}[/]; auto reaches {rates['auto'] / rates[best]:.0%} of it. "
        "Matches agree between all engines"
        + (", and with the specification on a sample." if data.subscriptions.texts else ".")
    )
    shards(data, events, rates["auto"])


def filled(engine: str, subscriptions: Subscriptions) -> tuple[ray_pubsub.MatchIndex, float, list[str]]:
    """An index, the seconds to build it, and why subscriptions were refused."""
    index = ray_pubsub.MatchIndex(engine)
    start = time.perf_counter()
    if subscriptions.intervals is not None:
        report = index.add_predicates(subscriptions.intervals)
    else:
        report = index.add_many(subscriptions.ids, subscriptions.texts)
    index.match({})
    return index, time.perf_counter() - start, [f"{each.id!r}: {each.error}" for each in report.rejections]


def check(index: ray_pubsub.MatchIndex, data: Data, events: Any) -> None:
    """Compares with the scan, which is the specification, on a sample. Intervals are only compared between engines."""
    if not data.subscriptions.texts:
        return
    chosen = range(0, len(data.subscriptions), max(1, len(data.subscriptions) // SAMPLE_SUBSCRIPTIONS))
    ids = [data.subscriptions.ids[place] for place in chosen]
    scan = ray_pubsub.MatchIndex("scan")
    scan.add_many(ids, [data.subscriptions.texts[place] for place in chosen])
    few = events[:SAMPLE_EVENTS]
    right, found, sampled = scan.match_many(few), index.match_many(few), set(ids)
    for event in range(len(few)):
        assert set(right[event]) == sampled & set(found[event]), f"event {event} differs from the specification"


def timed(index: ray_pubsub.MatchIndex, data: Data, events: Any) -> tuple[list[str], float, int]:
    """Cells of the table, events a second in batches, and all matches. Reading the events is in the batch's time, as in use."""
    if data.own:
        batch, found = in_order(index, events)
    else:
        found = len(index.match_many(events))
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            index.match_many(events)
            seconds.append(time.perf_counter() - start)
        batch = min(seconds) / len(events)
    vectors = index.stats().vectors
    hits = "" if vectors is None or vectors.hit_rate is None else f"{vectors.hit_rate:.0%}"
    single = []
    for place in range(min(SINGLES, len(events))):
        one = read_events(events[place : place + 1])
        start = time.perf_counter()
        index.match_many(one)
        single.append((time.perf_counter() - start) * 1e3)
    row = [
        f"{batch * 1e3:.4f}", f"{1 / batch:,.0f}", f"{np.mean(single):.3f}", f"{np.percentile(single, 99):.3f}",
        f"{found / len(events):,.1f}", hits,
    ]  # fmt: skip
    return row, 1 / batch, found


def in_order(index: ray_pubsub.MatchIndex, events: Any) -> tuple[float, int]:
    """Matches every event once, in batches. Returns seconds an event of the second half, and all matches."""
    size = max(1, min(BATCH, len(events) // 4))
    starts = range(0, len(events), size)
    found, late, counted = 0, 0.0, 0
    for number, place in enumerate(starts):
        part = events[place : place + size]
        start = time.perf_counter()
        found += len(index.match_many(part))
        if 2 * number >= len(starts):
            late, counted = late + time.perf_counter() - start, counted + len(part)
    return late / max(1, counted), found


def shards(data: Data, events: Any, rate: float) -> None:
    """The server's placement and routing on this data. A shard's time is taken to shrink with its subscriptions and with the events that
    it sees, which is the best that can be hoped for."""
    batch = read_events(events)
    frequencies = observed(batch)
    if data.subscriptions.intervals is not None:
        rows = PredicateTable(data.subscriptions.intervals)
        routes, ids = routes_of_rows(rows, frequencies), np.arange(len(rows.offsets) - 1)
    else:
        routes = routes_of_texts(data.subscriptions.texts, frequencies)
        ids = np.arange(len(routes.code))
    carried = attributes_of(events)
    table = Table(title="on more shards, one core each", title_justify="left")
    for column in ("shards", "largest ÷ mean", "shards an event visits", "events/s at most"):
        table.add_column(column, justify="right")
    whole: float | None = None
    for count in SHARDS:
        plan = plan_shards(routes, ids, carried, count, frequencies)
        slowest = float(plan.work.max())
        whole = slowest if whole is None else whole
        speed = whole / slowest if slowest else 1.0
        table.add_row(f"{count}", f"{plan.imbalance:.2f}", f"{plan.fan_out:.2f}", f"{rate * speed:,.0f}")
    console.print(table)


def attributes_of(events: Any) -> list[list[str]]:
    """What each event carries; of nested events the outer names, which are enough to count."""
    if isinstance(events, list):
        return [list(event) for event in events[:500]]
    return [[name for name, value in row.items() if value is not None] for row in events.slice(0, 500).to_pylist()]
