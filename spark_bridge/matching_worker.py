"""What came of a task's events, as the rows of match_events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from ray_pubsub.errors import EventError, TableError
from spark_bridge.publishing_worker import BadRow, Handoff, Outcome, handed_over, readable_parts
from spark_bridge.task_place import task_place
from spark_bridge.worker_server import ServerPlace, server_used

__all__ = ["Matching", "matching_function", "reading_function"]

ROWS_PER_YIELD = 1 << 16


@dataclass(frozen=True, slots=True)
class Matching:
    """All that a task needs to know."""

    place: ServerPlace
    handoff: Handoff
    kept: int
    """The last so many columns go into the output as they are."""
    errors: Literal["drop", "column", "fail"]
    subscription_ids: Literal["string", "long"]


def matching_function(matching: Matching) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For mapInArrow. Nested and thin: it travels by value, what it calls by name, so that the worker's module keeps the connection."""

    def match(batches: Iterator[Any]) -> Iterator[Any]:
        return match_batches(batches, matching)

    return match


def match_batches(batches: Iterator[Any], matching: Matching) -> Iterator[Any]:
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:  # an empty partition needs no server
        return
    with server_used(matching.place) as server:
        for outcome in handed_over(server, _again(first, batches), matching.handoff, task_place()):
            if outcome.bad and matching.errors == "fail":
                raise EventError(None, f"event {outcome.ids[outcome.bad[0].position]}: {outcome.bad[0].reason}")
            if outcome.result is not None and len(outcome.result):
                yield from _matches(outcome, matching).to_batches(ROWS_PER_YIELD)
            if outcome.bad and matching.errors == "column":
                yield from _bad_rows(outcome, matching).to_batches(ROWS_PER_YIELD)


def _again(first: Any, batches: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from batches


def _matches(outcome: Outcome, matching: Matching) -> Any:
    result = outcome.result
    assert result is not None
    counts = result.counts()
    places = pa.array(np.repeat(np.arange(len(counts)), counts))
    columns = [
        outcome.ids.take(places),
        _subscription_ids(result.packed_ids, matching.subscription_ids),
        result.arrow_subscribers(),
        result.arrow_priorities(),
    ]
    if matching.errors == "column":
        columns.append(pa.nulls(len(places), pa.string()))
    columns += [column.take(places) for column in _kept(outcome.rows, matching.kept)]
    return _table(columns)


def _bad_rows(outcome: Outcome, matching: Matching) -> Any:
    places = pa.array([bad.position for bad in outcome.bad], pa.int64())
    kinds = [pa.string() if matching.subscription_ids == "string" else pa.int64(), pa.string(), pa.string()]
    columns = [outcome.ids.take(places), *(pa.nulls(len(places), kind) for kind in kinds)]
    columns.append(pa.array([bad.reason for bad in outcome.bad], pa.string()))
    columns += [column.take(places) for column in _kept(outcome.rows, matching.kept)]
    return _table(columns)


def _kept(rows: Any, count: int) -> list[Any]:
    return list(rows.columns[rows.num_columns - count :])


def _table(columns: list[Any]) -> Any:
    """Spark takes columns by position."""
    return pa.Table.from_arrays(columns, names=[f"c{place}" for place in range(len(columns))])


def _subscription_ids(ids: Any, kind: str) -> Any:
    if kind == "long":
        if isinstance(ids, np.ndarray) and (ids.dtype != object or all(type(each) is int for each in ids.tolist())):
            return pa.array(ids, pa.int64())
        raise TableError("subscription_id", 'there are ids that are strings; leave out subscription_ids="long"')
    if isinstance(ids, np.ndarray) and ids.dtype == object:  # both strings and ints
        return pa.array(list(map(str, ids.tolist())), pa.string())
    return (pa.array(ids) if isinstance(ids, np.ndarray) else ids).cast(pa.string())


def reading_function(names: tuple[str, ...], has_id: bool) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For mapInArrow: only the rows that are no events, each with the reason."""

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        return bad_rows(batches, names, has_id)

    return read


def bad_rows(batches: Iterator[Any], names: tuple[str, ...], has_id: bool) -> Iterator[Any]:
    """The id, if there is one, and the reason."""
    for batch in batches:
        for part, found in readable_parts(batch, names):
            if isinstance(found, TableError):
                bad = [BadRow(0, str(found))]
            else:
                bad = [
                    BadRow(e.position or 0, f"{e.attribute}: {e.reason}" if e.attribute else e.reason)
                    for e in found.errors
                ]
            if has_id:
                missing = np.flatnonzero(part.column(len(names)).is_null().to_numpy(zero_copy_only=False)).tolist()
                bad = [
                    *(each for each in bad if each.position not in set(missing)),
                    *(BadRow(at, "the event's id is null") for at in missing),
                ]
            if bad:
                places = pa.array([each.position for each in bad], pa.int64())
                columns = [part.column(len(names)).take(places)] if has_id else []
                yield from _table([*columns, pa.array([each.reason for each in bad], pa.string())]).to_batches(
                    ROWS_PER_YIELD
                )
