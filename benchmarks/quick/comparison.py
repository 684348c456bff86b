"""One set of subscriptions and events on every engine, as long as the time lasts, and its plan on more shards."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import ray_pubsub
from benchmarks.growth.shard_plan import observed, plan_shards, routes_of_rows, routes_of_texts
from benchmarks.quick.user_data import Subscriptions, UserDataError, read_event_file, read_subscription_file
from ray_pubsub.engines.registry import engine_names
from ray_pubsub.errors import EventError, TableError, counted
from ray_pubsub.index.bulk.predicate_table import PredicateTable
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.events import read_events
from ray_pubsub.workloads import dense, segments, sparse

__all__ = ["Budget", "Data", "compare", "generated", "given"]

SAMPLE_SUBSCRIPTIONS, SAMPLE_EVENTS = 2000, 20
"""What the specification is asked, which takes microseconds a subscription and event."""
MOST_EVENTS, SINGLES, BATCH = 4096, 200, 512
WARM = 5
"""Events that each engine matches one by one before any is timed."""
MOST_OWN = 65_536
"""Of own events, whose repetitions count."""
ROUTED = 500
"""Events whose shards are counted."""
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
    found = read_subscription_file(subscriptions)
    rows = read_event_file(events, found.remarks)
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
    remarks = list(data.subscriptions.remarks)
    indexed = True
    for engine in [name for name in engine_names() if name != "scan"]:
        if rates and not budget.left():
            table.add_row(f"{engine}: no time left", *[""] * 8)
            continue
        with console.status(f"{data.name}: {engine}"):
            index, build, refused = filled(engine, data.subscriptions)
            if not len(index):
                raise UserDataError(f"no subscription is left: {remarked('subscription', refused)}")
            check(index, events)
            run = timed(index, data, events)
        if not rates:
            remarks += [remarked("subscription", refused)] if refused else []
            remarks += run.remarks
        rates[engine] = 1 / run.seconds
        answers.add(run.matches)
        name = engine
        if engine == "auto":
            indexed = bool(index.stats().blocks)
            name = f"auto ({', '.join(sorted({block.engine for block in index.stats().blocks})) or 'scanned'})"
        build_cells = [f"{build:.2f}", f"{index.nbytes / len(index):.0f}"]
        table.add_row(name, *run.cells[:4], *build_cells, *run.cells[4:])
        del index
        gc.collect()
    console.print(table)
    for remark in remarks:
        console.print(remark, markup=False)
    assert len(answers) == 1, f"engines differ in their matches: {answers}"
    best = max(rates, key=rates.__getitem__)
    console.print(
        "There was no time left for other engines; --seconds gives more. "
        if len(rates) == 1
        else f"Fastest in batches: [bold]{best}[/]; auto reaches {rates['auto'] / rates[best]:.0%} of it. "
        if indexed
        else "So few subscriptions are scanned, whatever the engine. ",
        end="",
    )
    between = "agree between all engines, and with" if len(rates) == len(engine_names()) - 1 else "were compared with"
    console.print(f"Matches {between} the specification on a sample.")
    shards(data, events, rates["auto"])


def remarked(what: str, errors: Sequence[str], became: str = "refused") -> str:
    """Returns a sentence about the items of a file that cannot be used."""
    return f"{counted(len(errors), what)} {became}, the first: {errors[0]}"


def filled(engine: str, subscriptions: Subscriptions) -> tuple[ray_pubsub.MatchIndex, float, list[str]]:
    """An index, the seconds to build it, and why subscriptions were refused."""
    index = ray_pubsub.MatchIndex(engine)
    start = time.process_time()
    if subscriptions.intervals is not None:
        try:
            report = index.add_predicates(subscriptions.intervals)
        except TableError as error:
            raise UserDataError(f"the table of intervals: {error}") from error
    else:
        report = index.add_many(subscriptions.ids, subscriptions.texts)
    index.match({})
    return index, time.process_time() - start, [f"{each.id!r}: {each.error}" for each in report.rejections]


def check(index: ray_pubsub.MatchIndex, events: Any) -> None:
    """Compares with the scan, which is the specification, on a sample."""
    ids = list(index)
    sampled = ids[:: max(1, len(ids) // SAMPLE_SUBSCRIPTIONS)]
    scan = ray_pubsub.MatchIndex("scan")
    scan.add_many(sampled, [index.expression(id) for id in sampled])
    few = events[:SAMPLE_EVENTS]
    right, found, known = scan.match_many(few), index.match_many(few), set(sampled)
    for event in range(len(few)):
        assert set(right[event]) == known & set(found[event]), f"event {event} differs from the specification"


class Run(NamedTuple):
    """What matching took, with all matches of all events."""

    cells: list[str]
    """Of the table."""
    seconds: float
    """An event, in batches. Reading the events is in it, as in use."""
    matches: int
    remarks: list[str]


def timed(index: ray_pubsub.MatchIndex, data: Data, events: Any) -> Run:
    """By the clock of the processor: whatever else this machine does would decide which engine is fastest."""
    remarks: list[str] = []
    if data.own:
        batch, found, remarks = in_order(index, events)
    else:
        found = len(index.match_many(events))
        seconds = []
        for _ in range(3):
            start = time.thread_time()
            index.match_many(events)
            seconds.append(time.thread_time() - start)
        batch = max(min(seconds), 1e-9) / len(events)
    vectors = index.stats().vectors
    hits = "" if vectors is None or vectors.hit_rate is None else f"{vectors.hit_rate:.0%}"
    few = events[:SINGLES] if isinstance(events, list) else events.slice(0, SINGLES).to_pylist()
    single = []
    for place in [*range(WARM), *range(SINGLES)]:
        start = time.thread_time()
        with suppress(EventError):  # it is among the remarks
            index.match(few[place % len(few)])
        single.append((time.thread_time() - start) * 1e3)
    middle, late = np.percentile(single[WARM:], (50, 99))
    cells = [
        f"{batch * 1e3:.4f}",
        f"{1 / batch:,.0f}",
        f"{middle:.3f}",
        f"{late:.3f}",
        f"{found / len(events):,.1f}",
        hits,
    ]
    return Run(cells, batch, found, remarks)


def in_order(index: ray_pubsub.MatchIndex, events: Any) -> tuple[float, int, list[str]]:
    """Matches every event once, in batches. Returns seconds an event of the second half, all matches, and what was wrong with events."""
    size = max(1, min(BATCH, len(events) // 4))
    starts = range(0, len(events), size)
    found, late, counts = 0, 0.0, 0
    bad: list[str] = []
    left_out: list[str] = []
    for number, place in enumerate(starts):
        part = events[place : place + size]
        start = time.thread_time()
        result = index.match_many(part)
        took = time.thread_time() - start
        found += len(result)
        for errors, texts in ((result.errors, bad), (result.warnings, left_out)):
            texts += [str(each.at(place + (each.position or 0))) for each in errors]
        if 2 * number >= len(starts) - 1:
            late, counts = late + took, counts + len(part)
    remarks = [remarked("event", bad)] if bad else []
    remarks += [remarked("value", left_out, "left out of its event")] if left_out else []
    return max(late, 1e-9) / counts, found, remarks


def shards(data: Data, events: Any, rate: float) -> None:
    """The server's placement and routing on this data. A shard's time is taken to shrink with its subscriptions and with the events that
    it sees, which is the best that can be hoped for."""
    frequencies = observed(read_events(events))
    if data.subscriptions.intervals is not None:
        rows = PredicateTable(data.subscriptions.intervals)
        routes, ids = routes_of_rows(rows, frequencies), np.arange(len(rows.offsets) - 1)
    else:
        routes = routes_of_texts(data.subscriptions.texts, frequencies)
        ids = np.arange(len(routes.code))
    carried = attributes_of(read_events(events[:ROUTED]))
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


def attributes_of(batch: EventBatch) -> list[list[str]]:
    """Returns what each event carries, by the names that subscriptions know: of nested events the dotted ones."""
    found: list[list[str]] = [[] for _ in range(batch.size)]
    cells = batch.cells()
    for number, (name, _) in enumerate(batch.layout()):
        for row in cells.rows[cells.offsets[number] : cells.offsets[number + 1]].tolist():
            found[row].append(name)
    return found
