"""The part of load_subscriptions that runs in Spark's Python workers: sends subscriptions to the registry and yields the rejected ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ray_pubsub.model.utf8 import valid_utf8
from spark_bridge.arrow_portions import Portions
from spark_bridge.worker_server import ServerPlace, server_used

__all__ = ["ADDED", "REJECTED", "Loading", "loading_function"]

COLUMNS = ("id", "subscriber", "expression")
BE = {"data": "are", "tags": "are"}
ADDED, REJECTED = "added", "rejected"
"""The kinds of output rows: a count of added subscriptions, or a rejected one."""
REJECTED_BYTES = 1 << 26
"""The bytes of rejected rows that one task sends to the driver, approximately."""


@dataclass(frozen=True, slots=True)
class Loading:
    """The arguments of a loading task. Batches have the columns id, subscriber, expression, the number of times that the id occurs, and
    the data and tags of the subscriptions."""

    place: ServerPlace
    batch_rows: int
    most_rejected: int
    """The most rejected rows that one task yields, unless they are very long; further ones are only counted."""
    carried: tuple[str, ...] = ()
    """The names of the last columns: data, tags."""


def loading_function(loading: Loading) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Returns the function for mapInArrow. It is a thin function, which is pickled by value, while what it calls is pickled by name."""

    def load(batches: Iterator[Any]) -> Iterator[Any]:
        return load_batches(batches, loading)

    return load


def load_batches(batches: Iterator[Any], loading: Loading) -> Iterator[Any]:
    """Yields rows of (part, count, id, subscriber, expression, reason)."""
    left, bytes_left = loading.most_rejected, REJECTED_BYTES
    for portion in Portions(batches, loading.batch_rows):
        unique = pc.equal(portion.column(3), 1)
        repeated = portion.filter(pc.invert(unique))
        reasons = [f"the id occurs {count:,} times; none of them was added" for count in repeated.column(3).to_pylist()]
        names = (*COLUMNS, "", *loading.carried)
        rows, garbled, why = _readable(portion.filter(unique), names)
        reasons += why
        added, rejected = 0, [repeated, garbled]
        if rows.num_rows:
            table = pa.table({name: column for name, column in zip(names, rows.columns, strict=True) if name})
            with server_used(loading.place) as server:
                report = server.subscribe_many(table, progress=False)
            added = report.added
            rejected.append(rows.take(pa.array([each.position for each in report.rejections], pa.int64())))
            reasons += [str(each.error) for each in report.rejections]
        shown = pa.concat_batches(rejected).slice(0, left)
        bytes_left -= shown.nbytes
        left = left - shown.num_rows if bytes_left > 0 else 0
        yield _row(ADDED, added, portion)
        if shown.num_rows:
            kinds = pa.array([REJECTED] * shown.num_rows, pa.string())
            ones = pa.array([1] * shown.num_rows, pa.int64())
            yield _batch([kinds, ones, *shown.columns[:3], pa.array(reasons[: shown.num_rows], pa.string())])
        if len(reasons) > shown.num_rows:
            yield _row(REJECTED, len(reasons) - shown.num_rows, portion)


def _readable(rows: Any, names: tuple[str, ...]) -> tuple[Any, Any, list[str]]:
    """Returns the rows with valid texts, the other rows, and the reason for each of those."""
    wrong: dict[int, str] = {}
    for name, column in zip(names, rows.columns, strict=True):
        owners, texts = np.arange(len(column)), column
        if pa.types.is_list(column.type):
            owners, texts = pc.list_parent_indices(column).to_numpy(), column.flatten()
        if not pa.types.is_integer(column.type):
            for place in owners[~valid_utf8(texts)].tolist():
                wrong.setdefault(place, f"the {name} {BE.get(name, 'is')} not valid UTF-8")
    if not wrong:
        return rows, rows.slice(0, 0), []
    readable = np.ones(rows.num_rows, dtype=bool)
    readable[list(wrong)] = False
    return rows.filter(pa.array(readable)), rows.take(pa.array(list(wrong), pa.int64())), list(wrong.values())


def _row(part: str, count: int, portion: Any) -> Any:
    """Returns a row that only counts."""
    nothing = [pa.nulls(1, column.type) for column in portion.columns[:3]]
    return _batch([pa.array([part]), pa.array([count], pa.int64()), *nothing, pa.nulls(1, pa.string())])


def _batch(columns: list[Any]) -> Any:
    return pa.RecordBatch.from_arrays(columns, names=[f"c{place}" for place in range(len(columns))])
