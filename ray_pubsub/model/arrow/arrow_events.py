"""Reads events from Arrow tables and pandas, column by column, without a Python object per cell.

A value that cannot be used makes its own row bad; the other rows are matched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ray_pubsub.errors import EventError, TableError
from ray_pubsub.model.arrow.arrow_columns import ColumnReader
from ray_pubsub.model.arrow.arrow_texts import is_string
from ray_pubsub.model.attribute_tree import AttributeTree
from ray_pubsub.model.event_batch import EventBatch, Lane, joined_lanes, kept_rows, without_bad
from ray_pubsub.model.values import Kind

__all__ = ["from_arrow"]


def from_arrow(
    table: Any, event_id: str | None = None, attributes: AttributeTree | None = None, *, strict: bool = True
) -> EventBatch:
    """Returns the batch of a pyarrow Table or RecordBatch. `event_id` names the column that holds the ids. Only the columns of
    `attributes` are read, or all if it is None. `strict` has the meaning that it has in events.read_events."""
    scope = None if attributes is None else attributes.scope
    names: list[str] = table.schema.names
    if len(set(names)) < len(names):
        repeated = [name for name, count in Counter(names).items() if count > 1]
        raise TableError(repeated[0], "there are two columns of this name")
    rows = table.num_rows
    ids: NDArray[Any] = np.arange(rows, dtype=np.int64) if event_id is None else _event_ids(table, event_id)
    reader = ColumnReader(attributes)
    for place, name in enumerate(names):
        if attributes is None or attributes.leads_to(name):
            _read_column(reader, name, table.column(place))
    reader.join_columns(rows)
    lanes, warnings = reader.lanes, []
    if not strict and reader.problems:
        warnings = [EventError(attribute, reason, row) for (row, attribute), reason in sorted(reader.problems.items())]
        lanes = _without_cells(lanes, rows, reader.problems)
        reader.problems.clear()
    problems: dict[int, tuple[str | None, str]] = {}
    for (row, attribute), reason in reader.problems.items():
        problems.setdefault(row, (attribute, reason))
    lanes, positions, errors = without_bad(lanes, rows, problems)
    size = rows if positions is None else len(positions)
    return EventBatch(size, lanes, ids, positions, errors, scope, warnings=warnings)


def _without_cells(lanes: list[Lane], size: int, problems: Iterable[tuple[int, str]]) -> list[Lane]:
    """Returns the lanes without the placeholders of values that cannot be used."""
    bad: dict[str, list[int]] = {}
    for row, attribute in problems:
        bad.setdefault(attribute, []).append(row)
    found = []
    for lane in lanes:
        if lane.attribute in bad:
            good = np.ones(size, dtype=bool)
            good[bad[lane.attribute]] = False
            found.append(kept_rows(lane, good))
        else:
            found.append(lane)
    return [lane for lane in found if len(lane)]


def _read_column(reader: ColumnReader, name: str, column: Any) -> None:
    """Reads a column: an array in a RecordBatch, possibly several chunks in a Table."""
    if isinstance(column, pa.Array):
        return reader.read(name, column)
    if column.num_chunks == 1:
        return reader.read(name, column.chunk(0))
    try:
        combined = column.combine_chunks()
        return reader.read(name, combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks))
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # the type cannot be joined, or does not fit one array
        _read_chunks(reader, name, column)


def _read_chunks(reader: ColumnReader, name: str, column: Any) -> None:
    lanes: dict[tuple[str, Kind], list[Lane]] = {}
    first = 0
    for chunk in column.chunks:
        part = ColumnReader(reader.attributes)
        part.read(name, chunk, np.arange(first, first + len(chunk), dtype=np.int32))
        for lane in part.lanes:
            lanes.setdefault((lane.attribute, lane.kind), []).append(lane)
        for problem, reason in part.problems.items():
            reader.problems.setdefault(problem, reason)
        first += len(chunk)
    reader.lanes += map(joined_lanes, lanes.values())


def _event_ids(table: Any, event_id: str) -> NDArray[Any]:
    if event_id not in table.schema.names:
        raise TableError(event_id, "there is no such column to take the event ids from")
    column = table.column(event_id)
    kind = _kind_of_values(column.type)
    reader = ColumnReader()
    if is_string(kind) or pa.types.is_integer(kind):
        _read_column(reader, event_id, column)
    if reader.problems:
        reason = next(iter(reader.problems.values()))
        raise TableError(event_id, f"an event id is {reason}")
    if table.num_rows == 0:
        return np.empty(0, dtype=np.int64)
    lane = reader.lanes[0] if reader.lanes else None
    if lane is None or len(lane) < table.num_rows:
        missing = table.num_rows - (0 if lane is None else len(lane))
        raise TableError(
            event_id, f"event ids are strings or integers, none missing; this is {kind} with {missing} missing"
        )
    if lane.strings is None:
        return lane.whole
    ids: NDArray[Any] = np.array(lane.strings.tolist(), dtype=object)[lane.whole]
    return ids


def _kind_of_values(kind: Any) -> Any:
    while pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    return kind
