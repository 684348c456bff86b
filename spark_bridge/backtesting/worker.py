"""The part of a back-test that runs in Spark's Python workers: Arrow batches of events in, a few rows of partial counts out."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from actors.mailboxes.event_content import pack_event
from ray_pubsub import MatchBatch, MatchIndex
from ray_pubsub.errors import EventError, TableError
from ray_pubsub.model.events import read_events
from ray_pubsub.model.values import EPOCH, Kind, Value, show_microseconds
from spark_bridge.arrow_portions import by_halves
from spark_bridge.backtesting.tally import PAIRS_AT_MOST, Tally
from spark_bridge.backtesting.windows import Window
from spark_bridge.backtesting.worker_index import PackedIndex, unpacked

__all__ = ["Counting", "counting_function"]

ROWS_PER_YIELD = 1 << 16


@dataclass(frozen=True, slots=True)
class Counting:
    """The arguments of a counting task."""

    index: PackedIndex
    """The index, whose ids are the numbers 0, 1, 2, …"""
    subscriptions: int
    attributes: tuple[str, ...]
    """The names of the first columns, which are the events."""
    has_id: bool
    window: Window | None
    """If set, the last column is the time of the event."""
    examples: int
    with_examples: int
    """The number of subscriptions that get examples, counted from the first."""


def counting_function(counting: Counting) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Returns the function for mapInArrow. It is a thin nested function, which is pickled by value, while what it calls is pickled by
    name, so that the index stays in the worker's module."""

    def count(batches: Iterator[Any]) -> Iterator[Any]:
        return count_matches(batches, counting)

    return count


def count_matches(batches: Iterator[Any], counting: Counting) -> Iterator[Any]:
    context = TaskContext.get()
    wanted = np.full(counting.with_examples, counting.examples, dtype=np.int64)
    tally = Tally(counting.subscriptions, 0 if context is None else context.partitionId(), wanted)
    position = 0
    for batch in batches:
        _count_batch(batch, position, counting, tally)
        position += batch.num_rows
        if tally.pairs > PAIRS_AT_MOST:
            yield from tally.rows().to_batches(ROWS_PER_YIELD)
    if position:
        yield from tally.rows().to_batches(ROWS_PER_YIELD)


def _count_batch(batch: Any, position: int, counting: Counting, tally: Tally) -> None:
    events = pa.RecordBatch.from_arrays(batch.columns[: len(counting.attributes)], names=list(counting.attributes))
    ids = batch.column(len(counting.attributes)) if counting.has_id else None
    if counting.window is None:
        tally.windows.setdefault(None, 0)
        windows = np.zeros(batch.num_rows, dtype=np.int64)
    else:
        windows = tally.window_numbers(counting.window.starts(batch.column(batch.num_columns - 1)))
    for start, matches in matched(unpacked(counting.index), events):
        per_event = matches.counts()
        of = windows[start : start + len(per_event)]
        for error in matches.errors:
            assert error.position is not None
            where = "" if error.attribute is None else f"{error.attribute}: "
            tally.add_bad(position + start + error.position, f"{where}{error.reason}")
        rows = np.repeat(np.arange(len(per_event)), per_event)
        subscriptions = matches.subscription_ids.astype(np.int64, copy=False)
        tally.add_events(of, per_event)
        tally.add_matches(of[rows], subscriptions)
        for place in tally.wanted(subscriptions).tolist():
            row = start + int(rows[place])
            shown = None if ids is None else _shown_id(ids[row])
            tally.found.append((int(subscriptions[place]), position + row, shown, _packed(events.slice(row, 1))))


def matched(index: MatchIndex, events: Any) -> Iterator[tuple[int, MatchBatch]]:
    """Yields the matches of a batch, in parts, with the position at which each part begins."""
    for start, _, found in by_halves(partial(index.match_many, strict=True), events):
        yield start, _refused(found) if isinstance(found, TableError) else found


def _refused(error: TableError) -> MatchBatch:
    none = np.empty(0, dtype=np.int64)
    return MatchBatch(np.zeros(2, dtype=np.int64), none, np.zeros(1), None, [EventError(error.column, error.reason, 0)])


def _shown_id(identity: Any) -> str | None:
    try:
        plain = identity.as_py()
    except UnicodeDecodeError:
        plain = identity.as_buffer().to_pybytes().decode(errors="replace")
    return None if plain is None else str(plain)


def _packed(row: Any) -> bytes:
    """Packs one event as the matcher read it: attribute → number, string, boolean or time in UTC, without absent attributes and without
    columns that cannot be read (no subscription tests them, or the event would be a bad one)."""
    events = read_events(row).rows()
    if not events:
        events = [event for name in row.schema.names for event in read_events(row.select([name])).rows()]
    return pack_event({name: _shown(value) for event in events for name, value in event.items()})


def _shown(value: Value) -> Any:
    if value.kind != Kind.TIMESTAMP:
        return value.plain
    try:
        return EPOCH + datetime.timedelta(microseconds=value.plain)
    except OverflowError:  # the year is outside Python's calendar
        return show_microseconds(value.plain)
