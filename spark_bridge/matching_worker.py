"""The part of match_events that runs in Spark's Python workers: converts the results of a task's events to rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ray_pubsub.errors import EventError, TableError
from spark_bridge.matched_metadata import MatchedMetadata
from spark_bridge.publishing_worker import (
    BadRow,
    Handoff,
    Outcome,
    bad_row,
    handed_over,
    readable_parts,
    separated,
)
from spark_bridge.task_place import task_place
from spark_bridge.worker_server import ServerPlace, server_used, while_connected

__all__ = ["Matching", "matching_function", "reading_function"]

ROWS_PER_YIELD = 1 << 16
BYTES_PER_YIELD = 1 << 25


@dataclass(frozen=True, slots=True)
class Matching:
    """The arguments of a matching task."""

    place: ServerPlace
    handoff: Handoff
    kept: int
    """The number of last columns that are copied to the output."""
    errors: Literal["drop", "column", "fail"]
    subscription_ids: Literal["string", "long"]
    metadata: bool


def matching_function(matching: Matching) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Returns the function for mapInArrow. It is a thin nested function, which is pickled by value, while what it calls is pickled by
    name, so that the connection stays in the worker's module."""

    def match(batches: Iterator[Any]) -> Iterator[Any]:
        return match_batches(batches, matching)

    return match


def match_batches(batches: Iterator[Any], matching: Matching) -> Iterator[Any]:
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:  # an empty partition needs no server
        return
    place = task_place()
    if not matching.handoff.has_id:  # the partition column is in place of the id column
        place = replace(place, part=first.column(len(matching.handoff.attributes))[0].as_py())
    described = MatchedMetadata()
    with server_used(matching.place) as server:
        events = while_connected(matching.place, chain([first], batches))
        for outcome in handed_over(server, events, matching.handoff, place):
            if outcome.bad and matching.errors == "fail":
                raise EventError(None, f"event {outcome.first_bad}")
            if outcome.result is not None and len(outcome.result):
                yield from _matches(outcome, matching, described)
            if outcome.bad and matching.errors == "column":
                yield from _bad_rows(outcome, matching).to_batches(ROWS_PER_YIELD)


def _matches(outcome: Outcome, matching: Matching, described: MatchedMetadata) -> Iterator[Any]:
    result = outcome.result
    assert result is not None
    counts = result.counts()
    places = np.repeat(np.arange(len(counts)), counts)
    found = [
        _subscription_ids(result.packed_ids, matching.subscription_ids),
        result.arrow_subscribers(),
        result.arrow_priorities(),
    ]
    if matching.metadata:
        found += described.columns(result)
    if matching.errors == "column":
        found.append(pa.nulls(len(places), pa.string()))
    kept = _kept(outcome.rows, matching.kept)
    for start, stop in spans(counts, kept):
        of = pa.array(places[start:stop])
        events = [column.take(of) for column in (outcome.ids, *kept)]
        beside = [column.slice(start, stop - start) for column in found]
        yield from _table([events[0], *beside, *events[1:]]).to_batches()


def spans(counts: NDArray[np.int64], kept: list[Any]) -> Iterator[tuple[int, int]]:
    """Yields runs of matches whose rows are built together. Kept columns of an event are repeated for each of its matches, so runs are
    bounded."""
    weights = np.full(len(counts), BYTES_PER_YIELD // ROWS_PER_YIELD)
    if sum(column.nbytes for column in kept) * int(counts.max()) > BYTES_PER_YIELD:
        for event in np.flatnonzero(counts).tolist():
            weights[event] = max(weights[event], sum(column.slice(event, 1).nbytes for column in kept))
    ends = np.cumsum(np.repeat(weights, counts))
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + BYTES_PER_YIELD, side="right")))
        yield start, stop
        start = stop


def _bad_rows(outcome: Outcome, matching: Matching) -> Any:
    places = pa.array([bad.position for bad in outcome.bad], pa.int64())
    kinds = [pa.string() if matching.subscription_ids == "string" else pa.int64(), pa.string(), pa.string()]
    if matching.metadata:
        kinds += [pa.string(), pa.list_(pa.string())]
    columns = [outcome.ids.take(places), *(pa.nulls(len(places), kind) for kind in kinds)]
    columns.append(pa.array([bad.reason for bad in outcome.bad], pa.string()))
    columns += [column.take(places) for column in _kept(outcome.rows, matching.kept)]
    return _table(columns)


def _kept(rows: Any, count: int) -> list[Any]:
    return list(rows.columns[rows.num_columns - count :])


def _table(columns: list[Any]) -> Any:
    """Returns a table. Spark takes columns by position."""
    return pa.Table.from_arrays(columns, names=[f"c{place}" for place in range(len(columns))])


def _subscription_ids(ids: Any, kind: str) -> Any:
    if kind == "long":
        if isinstance(ids, np.ndarray) and (ids.dtype != object or all(type(each) is int for each in ids.tolist())):
            return pa.array(ids, pa.int64())
        raise TableError("subscription_id", 'there are ids that are strings; leave out subscription_ids="long"')
    if isinstance(ids, np.ndarray) and ids.dtype == object:  # there are both strings and ints
        return pa.array(list(map(str, ids.tolist())), pa.string())
    return (pa.array(ids) if isinstance(ids, np.ndarray) else ids).cast(pa.string())


def reading_function(
    names: tuple[str, ...], has_id: bool, deliver: bool, strict: bool
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Returns a function for mapInArrow that yields only the rows that are not valid events, each with the reason."""

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        return bad_rows(batches, names, has_id, deliver, strict)

    return read


def bad_rows(
    batches: Iterator[Any], names: tuple[str, ...], has_id: bool, deliver: bool, strict: bool
) -> Iterator[Any]:
    """Yields the id, if there is one, and the reason for each bad row."""
    for batch in batches:
        for reason, rows in separated(batch, names, has_id, deliver):
            if reason is not None:
                yield from _reasons_of(rows, [BadRow(at, reason) for at in range(rows.num_rows)], names, has_id)
                continue
            for part, found in readable_parts(rows, names, strict):
                bad = [BadRow(0, str(found))] if isinstance(found, TableError) else list(map(bad_row, found.errors))
                yield from _reasons_of(part, bad, names, has_id)


def _reasons_of(rows: Any, bad: list[BadRow], names: tuple[str, ...], has_id: bool) -> Iterator[Any]:
    if bad:
        places = pa.array([each.position for each in bad], pa.int64())
        columns = [rows.column(len(names)).take(places)] if has_id else []
        yield from _table([*columns, pa.array([each.reason for each in bad], pa.string())]).to_batches(ROWS_PER_YIELD)
