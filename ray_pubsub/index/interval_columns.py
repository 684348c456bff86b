"""Reading a table of intervals: its columns checked, its rows grouped by subscription, its bounds as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ray_pubsub.errors import Rejection, TableError
from ray_pubsub.index.arrow_table import as_arrow_table
from ray_pubsub.model.arrow_events import from_arrow
from ray_pubsub.model.values import Kind

__all__ = [
    "BoundColumn",
    "Names",
    "bound_columns",
    "checked_table",
    "closed_flags",
    "group_by_id",
    "kind_of",
    "names_of",
]

COLUMNS = ("id", "attribute", "low", "high", "low_closed", "high_closed")


def checked_table(table: Any) -> Any:
    """The table with its columns in place and of plain types, or a TableError."""
    table = as_arrow_table(table, "predicates")
    for column in COLUMNS[:4]:
        if column not in table.column_names:
            reason = (
                "missing; predicates have the columns id, attribute, low, high and, if wanted, low_closed, high_closed"
            )
            raise TableError(column, reason)
    for name in table.column_names:
        if name.startswith(("low", "high")) and name not in COLUMNS:
            raise TableError(name, f"is not known; the columns are {', '.join(COLUMNS)}")
    columns = {name: table.column(name) for name in COLUMNS if name in table.column_names}
    columns = {name: column if name == "attribute" else plain_column(column) for name, column in columns.items()}
    for name in ("id", "attribute"):
        if columns[name].null_count:
            raise TableError(name, "has nulls")
    if pa.types.is_integer(columns["id"].type):
        columns["id"] = _cast("id", columns["id"], pa.int64())
    elif is_text(columns["id"].type):
        columns["id"] = _cast("id", columns["id"], pa.string())
    else:
        raise TableError("id", f"ids are strings or integers, not {columns['id'].type}")
    names = columns["attribute"].type
    if not is_text(names.value_type if pa.types.is_dictionary(names) else names):
        raise TableError("attribute", f"attribute names are strings, not {names}")
    for name in ("low_closed", "high_closed"):
        if name in columns and not pa.types.is_boolean(columns[name].type):
            raise TableError(name, f"must be boolean, not {columns[name].type}")
    return pa.table({name: one_array(column) for name, column in columns.items()})


def group_by_id(ids: Any) -> tuple[NDArray[np.int64] | None, NDArray[np.int64], NDArray[np.int64] | list[str]]:
    """(order, offsets, ids): subscription i, in order of first appearance, has the rows order[offsets[i]:offsets[i + 1]]; `order` is
    None if the rows stand that way already, as they mostly do: then comparing neighbours is enough, without hashing every row."""
    if pa.types.is_integer(ids.type):
        values = ids.to_numpy(zero_copy_only=False)
        starts = np.flatnonzero(values[1:] != values[:-1]) + 1
        starts = np.concatenate([[0], starts]) if len(values) else starts
        heads = values[starts]
        if (heads[1:] > heads[:-1]).all() or len(np.unique(heads)) == len(heads):
            return None, np.append(starts, len(values)), heads
    encoded = ids.dictionary_encode()
    owner = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    order = None
    if (owner[1:] < owner[:-1]).any():
        order = np.argsort(owner, kind="stable")
        owner = owner[order]
    heads = encoded.dictionary
    offsets = np.searchsorted(owner, np.arange(len(heads) + 1))
    return order, offsets, heads.to_numpy() if pa.types.is_integer(ids.type) else heads.to_pylist()


@dataclass(slots=True, eq=False)
class Names:
    """Attribute names: a number per row, as narrow as it can be, and the name of each number."""

    number: NDArray[Any]
    texts: list[str]


def names_of(column: Any) -> Names:
    encoded = one_array(column)
    if not pa.types.is_dictionary(encoded.type):
        encoded = encoded.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    number = encoded.indices.to_numpy(zero_copy_only=False)
    if None in texts or len(set(texts)) < len(texts):  # a dictionary may hide nulls, and say a name twice
        if None in texts and (number == texts.index(None)).any():
            raise TableError("attribute", "has nulls")
        distinct = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        number = np.array([distinct[text] for text in texts])[number]
        texts = ["" if text is None else text for text in distinct]
    narrow = np.uint8 if len(texts) < 2**8 else (np.uint16 if len(texts) < 2**16 else np.int32)
    return Names(number.astype(narrow), texts)


@dataclass(slots=True, eq=False)
class BoundColumn:
    """`low` or `high`: per row the bound as (whole, rest), and whether there is one. What is the same in every row takes no memory."""

    whole: NDArray[Any]
    rest: NDArray[np.float64]
    given: NDArray[np.bool_]
    strings: list[str] | None = None
    """If the bounds are strings: `whole` is a position in here."""

    def at(self, row: int, kind: Kind) -> Any:
        """The bound as a Python object; None if there is none."""
        if not self.given[row]:
            return None
        whole, rest = int(self.whole[row]), float(self.rest[row])
        if self.strings is not None:
            return self.strings[whole]
        if kind == Kind.BOOLEAN:
            return bool(whole)
        if rest == 0:
            return whole
        return rest if abs(rest) >= 2.0**63 else whole + rest


def bound_columns(table: Any, ids_at: Any) -> tuple[BoundColumn, BoundColumn, dict[int, Rejection]]:
    """Both bounds, and what is refused: row → Rejection. A subscription with a bound that is not a value is refused whole, and only it.
    `ids_at(row)`: the id of a row's subscription."""
    refused: dict[int, Rejection] = {}

    def refuse(row: int, column: str, reason: str) -> None:
        refused.setdefault(row, Rejection(row, ids_at(row), TableError(column, reason)))

    found = []
    for name in ("low", "high"):
        column = table.column(name)
        if pa.types.is_integer(column.type) and not pa.types.is_uint64(column.type) and not column.null_count:
            whole = one_array(column).to_numpy(zero_copy_only=False)  # the column itself, not a copy
            found.append(BoundColumn(whole, _same(0.0, len(whole)), _same(True, len(whole))))
            continue
        batch = from_arrow(pa.table({name: column}))
        for error in batch.errors:
            assert error.position is not None
            refuse(error.position, name, error.reason)
        if pa.types.is_floating(column.type):
            nan = pc.fill_null(pc.is_nan(column), False).to_numpy()
            for row in np.flatnonzero(nan).tolist():
                refuse(row, name, "NaN is no bound; null means there is none")
        found.append(_spread(batch, table.num_rows))
    return found[0], found[1], refused


def _spread(batch: Any, rows: int) -> BoundColumn:
    """A value for every row of the input, given or not."""
    if not batch.lanes or not len(batch.lanes[0]):
        return BoundColumn(_same(0, rows), _same(0.0, rows), _same(False, rows))
    lane = batch.lanes[0]
    if lane.rows is None and batch.positions is None:
        rest = _same(0.0, rows) if lane.rest is None else lane.rest
        return BoundColumn(lane.whole, rest, _same(True, rows), lane.strings)
    where = lane.rows if batch.positions is None else batch.positions[lane.rows]
    whole, given = np.zeros(rows, np.int64), np.zeros(rows, np.bool_)
    whole[where], given[where] = lane.whole, True
    rest = _same(0.0, rows)
    if lane.rest is not None:
        rest = np.zeros(rows)
        rest[where] = lane.rest
    return BoundColumn(whole, rest, given, lane.strings)


def closed_flags(table: Any, column: str) -> NDArray[np.bool_]:
    """Closed unless said otherwise."""
    if column not in table.column_names:
        return _same(True, table.num_rows)
    flags: NDArray[np.bool_] = pc.fill_null(table.column(column), True).to_numpy()
    return flags


def kind_of(table: Any) -> Kind:
    """The kind both bounds have; rows of other kinds go into a table of their own."""
    kinds = {column: _kind_of_type(column, table.column(column).type) for column in ("low", "high")}
    found = {kind for kind in kinds.values() if kind is not None}
    if len(found) != 1:
        types = ", ".join(f"{column} {table.column(column).type}" for column in kinds)
        raise TableError(
            "low", f"low and high must be of one kind ({types}); rows of another kind go into a table of their own"
        )
    return found.pop()


def one_array(column: Any) -> Any:
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = (
        column.unify_dictionaries().combine_chunks() if pa.types.is_dictionary(column.type) else column.combine_chunks()
    )
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _same(value: Any, rows: int) -> NDArray[Any]:
    return np.broadcast_to(np.asarray(value), rows)


def plain_column(column: Any) -> Any:
    """Without dictionaries (which may hide nulls); Arrow hands most of them over without a copy of the strings."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _cast(name: str, column: Any, kind: Any) -> Any:
    try:
        return column.cast(kind)
    except pa.ArrowInvalid as error:
        raise TableError(name, f"cannot be read as {kind}: {error}") from None


def is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _kind_of_type(column: str, kind: Any) -> Kind | None:
    if pa.types.is_null(kind):
        return None
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return Kind.NUMBER
    if is_text(kind):
        return Kind.STRING
    if pa.types.is_boolean(kind):
        return Kind.BOOLEAN
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return Kind.TIMESTAMP
    raise TableError(column, f"a bound is a number, string, boolean or timestamp, not {kind}")
