"""Converts a table of subscriptions, from pyarrow or pandas, to one pyarrow Table."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from ray_pubsub.errors import TableError

__all__ = ["as_arrow_table", "refuse_repeated"]


def as_arrow_table(table: Any, what: str) -> Any:
    """Returns the table. Raises TableError, which says what is wrong with it."""
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    elif not isinstance(table, pa.Table):
        if type(table).__module__.partition(".")[0] != "pandas" or not hasattr(table, "columns"):
            given = type(table).__name__
            raise TableError(None, f"{what} come as a pyarrow Table, RecordBatch or pandas DataFrame, not {given}")
        refuse_repeated(table.columns)
        try:
            table = pa.Table.from_pandas(table, preserve_index=False)
        except (
            pa.ArrowInvalid,
            pa.ArrowTypeError,
            pa.ArrowNotImplementedError,
            OverflowError,
            TypeError,
            UnicodeError,
        ) as error:
            reason = " ".join(str(part) for part in error.args)
            raise TableError(None, f"the DataFrame has a column of mixed types: {reason}") from None
    refuse_repeated(table.column_names)
    return table


def refuse_repeated(names: Any) -> None:
    """Raises TableError if two columns have one name."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TableError(str(repeated[0]), "there are two columns of this name")
