"""The columns of a table of rules: that they are there, and of the right types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ray_pubsub.errors import TableError
from ray_pubsub.index.arrow_table import as_arrow_table
from ray_pubsub.index.interval_columns import is_text, plain_column
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["checked_columns", "without_bad"]

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
    columns = {name: plain_column(table.column(name)) for name in COLUMNS if name in table.column_names}
    for name in ("id", "attribute"):
        if columns[name].null_count:
            raise TableError(name, "has nulls")
    if pa.types.is_integer(columns["id"].type):
        try:
            columns["id"] = columns["id"].cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise TableError("id", f"cannot be read as integers of 64 bits: {error}") from None
    elif not is_text(columns["id"].type):
        raise TableError("id", f"ids are strings or integers, not {columns['id'].type}")
    for name in ("attribute", "level"):
        if not is_text(columns[name].type):
            raise TableError(name, f"must be strings, not {columns[name].type}")
    for name in ("low_closed", "high_closed"):
        if name in columns and not pa.types.is_boolean(columns[name].type):
            raise TableError(name, f"must be boolean, not {columns[name].type}")
    return pa.table(columns)


def without_bad(table: Any, column: str, bounds: EventBatch) -> Any:
    """The column with null where a row cannot be read: its rule is refused, the others go on."""
    bad = np.zeros(table.num_rows, dtype=bool)
    bad[[error.position for error in bounds.errors if error.position is not None]] = True
    kind = table.column(column).type
    return pc.if_else(pa.array(bad), pa.scalar(None, kind), table.column(column))
