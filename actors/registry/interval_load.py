"""Reads and checks a client's table of intervals, with a subscriber for each subscription."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from actors.registry.given_names import LONGEST_NAME, check_subscriber
from ray_pubsub.errors import Rejection, TableError
from ray_pubsub.index.bulk.interval_columns import checked_table, texts_of
from ray_pubsub.index.bulk.predicate_table import PredicateTable
from ray_pubsub.model.arrow.arrow_table import as_arrow_table
from ray_pubsub.model.id_column import ids_of
from ray_pubsub.model.metadata import Metadata

__all__ = ["IntervalLoad", "read_intervals"]


@dataclass(slots=True, eq=False)
class IntervalLoad:
    """A table of intervals. Subscription i has the id `ids[i]`, the subscriber `subscribers[i]` and the rows offsets[i]:offsets[i + 1]."""

    predicates: PredicateTable
    """The same subscriptions, for `PivotChooser.routes_of_rows`."""
    ids: NDArray[Any]
    offsets: NDArray[np.int64]
    rows: Any
    """A pyarrow Table: attribute, low, high and, if given, low_closed, high_closed."""
    subscribers: list[str]
    rejections: list[Rejection]
    metadata: list[Metadata | None] | None = None
    """The data and tags of each subscription; None if no subscription has any."""

    def __len__(self) -> int:
        return len(self.ids)


def read_intervals(table: Any, subscriber: str | None = None) -> IntervalLoad:
    """Reads a table as `MatchIndex.add_predicates` takes it, with a column `subscriber` unless one subscriber is given for all. Raises
    TableError or SettingError. A subscription with a bad bound is listed in the rejections, and the others are read."""
    table = as_arrow_table(table, "predicates")
    _check_lengths(table, "id")
    names = _names(table) if subscriber is None else None
    rows = checked_table(table)
    predicates = PredicateTable(rows)
    rows = rows.drop_columns(["id"])
    if predicates.input_rows is not None:
        rows = rows.take(pa.array(predicates.input_rows))
    if names is None:
        owners = [check_subscriber(subscriber)] * len(predicates.ids)
    else:  # a subscription's first row names its subscriber
        heads = predicates.offsets[:-1]
        heads = heads if predicates.input_rows is None else predicates.input_rows[heads]
        owners = texts_of("subscriber", names.take(pa.array(heads)))
    ids = ids_of(predicates.ids)
    return IntervalLoad(predicates, ids, predicates.offsets, rows.combine_chunks(), owners, predicates.rejections)


def _names(table: Any) -> Any:
    """Returns the column of subscribers."""
    if "subscriber" not in table.column_names:
        raise TableError("subscriber", "missing; name the subscriber in a column, or give one for the whole table")
    names = table.column("subscriber")
    if names.null_count:
        raise TableError("subscriber", "has nulls")
    if not pa.types.is_string(names.type) and not pa.types.is_large_string(names.type):
        raise TableError("subscriber", f"subscribers are strings, not {names.type}")
    if pc.any(pc.equal(names, "")).as_py():
        raise TableError("subscriber", "has an empty name")
    _check_lengths(table, "subscriber")
    return names


def _check_lengths(table: Any, name: str) -> None:
    column = table.column(name) if name in table.column_names else None
    if column is None or not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return
    longest = pc.max(pc.utf8_length(column)).as_py()
    if longest is not None and longest > LONGEST_NAME:
        raise TableError(name, f"has a text of {longest:,} characters; the most are {LONGEST_NAME:,}")
