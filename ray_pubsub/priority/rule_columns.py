"""The columns of a table of rules: that they are there, of the right types, and of what kind the bounds are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ray_pubsub.errors import TableError
from ray_pubsub.index.arrow_table import as_arrow_table
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.values import Kind

__all__ = ["checked_columns", "closed_flags", "kind_of_bounds", "one_array", "without_bad"]

COLUMNS = ("id", "level", "attribute", "low", "high", "low_closed", "high_closed")


def checked_columns(table: Any) -> Any:
    """The table with its columns in place and of plain types, or a TableError."""
    table = as_arrow_table(table, "rules")
    for column in COLUMNS[:5]:
        if column not in table.column_names:
            raise TableError(
                column,
                f"missing; rules have the columns {', '.join(COLUMNS[:5])} and, if wanted, low_closed, high_closed",
            )
    for name in table.column_names:
        if name.startswith(("low", "high")) and name not in COLUMNS:
            raise TableError(name, f"is not known; the columns are {', '.join(COLUMNS)}")
    columns = {name: _plain(table.column(name)) for name in COLUMNS if name in table.column_names}
    for name in ("id", "attribute"):
        if columns[name].null_count:
            raise TableError(name, "has nulls")
    if pa.types.is_integer(columns["id"].type):
        try:
            columns["id"] = columns["id"].cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise TableError("id", f"cannot be read as integers of 64 bits: {error}") from None
    elif not _is_text(columns["id"].type):
        raise TableError("id", f"ids are strings or integers, not {columns['id'].type}")
    for name in ("attribute", "level"):
        if not _is_text(columns[name].type):
            raise TableError(name, f"must be strings, not {columns[name].type}")
    return pa.table(columns)


def _plain(column: Any) -> Any:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def kind_of_bounds(table: Any) -> Kind:
    kinds = {_kind_of_type(column, table.column(column).type) for column in ("low", "high")} - {None}
    if len(kinds) != 1:
        types = ", ".join(f"{column} {table.column(column).type}" for column in ("low", "high"))
        raise TableError(
            "low", f"low and high must be of one kind ({types}); rules of another kind go into a table of their own"
        )
    found = kinds.pop()
    assert found is not None
    return found


def _kind_of_type(column: str, kind: Any) -> Kind | None:
    if pa.types.is_null(kind):
        return None
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return Kind.NUMBER
    if _is_text(kind):
        return Kind.STRING
    if pa.types.is_boolean(kind):
        return Kind.BOOLEAN
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return Kind.TIMESTAMP
    raise TableError(column, f"a bound is a number, string, boolean or timestamp, not {kind}")


def closed_flags(table: Any, column: str) -> NDArray[np.bool_]:
    """Closed unless said otherwise."""
    if column not in table.column_names:
        return np.broadcast_to(np.bool_(True), table.num_rows)
    if not pa.types.is_boolean(table.column(column).type):
        raise TableError(column, f"must be boolean, not {table.column(column).type}")
    flags: NDArray[np.bool_] = pc.fill_null(table.column(column), True).to_numpy()
    return flags


def one_array(column: Any) -> Any:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def without_bad(table: Any, column: str, bounds: EventBatch) -> Any:
    """The column with null where a row cannot be read: its rule is refused, the others go on."""
    bad = np.zeros(table.num_rows, dtype=bool)
    bad[[error.position for error in bounds.errors if error.position is not None]] = True
    kind = table.column(column).type
    return pc.if_else(pa.array(bad), pa.scalar(None, kind), table.column(column))
