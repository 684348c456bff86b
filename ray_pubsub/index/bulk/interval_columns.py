"""Reads a table of intervals: checks its columns, groups its rows by subscription, and converts its bounds to numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ray_pubsub.columns.string_hashes import distinct_of
from ray_pubsub.errors import Rejection, TableError
from ray_pubsub.model.arrow.arrow_events import from_arrow
from ray_pubsub.model.arrow.arrow_table import as_arrow_table
from ray_pubsub.model.event_batch import split_floats
from ray_pubsub.model.values import Kind

__all__ = [
    "AttributeColumn",
    "BoundColumn",
    "bound_columns",
    "checked_table",
    "closed_flags",
    "exact_column",
    "group_by_id",
    "is_text",
    "kind_of",
    "names_of",
    "one_array",
    "plain_column",
    "take_rows",
    "texts_of",
]

COLUMNS = ("id", "attribute", "low", "high", "low_closed", "high_closed")


def checked_table(table: Any) -> Any:
    """Returns the table with all columns, of plain types. Raises TableError."""
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
        columns["id"] = _cast_ids(columns["id"], pa.int64())
    elif is_text(columns["id"].type):
        columns["id"] = _cast_ids(columns["id"], pa.string())
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
    """Returns (order, offsets, ids): subscription i, in order of first appearance, has the rows order[offsets[i]:offsets[i + 1]].
    `order` is None if the rows are in that order already, which is usual: comparing neighbours then suffices, without hashing every
    row."""
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
    return order, offsets, heads.to_numpy() if pa.types.is_integer(ids.type) else texts_of("id", heads)


@dataclass(slots=True, eq=False)
class AttributeColumn:
    """Attribute names: a number per row, as narrow as possible, and the name of each number."""

    number: NDArray[Any]
    texts: list[str]


def texts_of(name: str, column: Any) -> list[Any]:
    """Returns a column of strings as a list. Raises TableError where Arrow has bytes that are not UTF-8."""
    try:
        texts: list[Any] = column.to_pylist()
        return texts
    except UnicodeDecodeError:
        raise TableError(name, "has a string that is not valid UTF-8") from None


def names_of(column: Any) -> AttributeColumn:
    encoded = one_array(column)
    if not pa.types.is_dictionary(encoded.type):
        encoded = encoded.dictionary_encode()
    texts = texts_of("attribute", encoded.dictionary)
    number = encoded.indices.to_numpy(zero_copy_only=False)
    if None in texts or len(set(texts)) < len(texts):  # a dictionary may contain a null, or a name twice
        if None in texts and (number == texts.index(None)).any():
            raise TableError("attribute", "has nulls")
        distinct = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        number = np.array([distinct[text] for text in texts])[number]
        texts = ["" if text is None else text for text in distinct]
    narrow = np.uint8 if len(texts) < 2**8 else (np.uint16 if len(texts) < 2**16 else np.int32)
    return AttributeColumn(number.astype(narrow), texts)


@dataclass(slots=True, eq=False)
class BoundColumn:
    """The column `low` or `high`: for each row the bound as (whole, rest), and whether there is one. A part that is the same in every
    row takes no memory."""

    whole: NDArray[Any]
    rest: NDArray[np.float64]
    given: NDArray[np.bool_]
    strings: list[str] | None = None
    """The strings if the bounds are strings; `whole` is then a position in this list."""

    def take(self, rows: NDArray[np.int64]) -> BoundColumn:
        whole, rest, given = (take_rows(each, rows) for each in (self.whole, self.rest, self.given))
        return BoundColumn(whole, rest, given, self.strings)

    def at(self, row: int, kind: Kind) -> Any:
        """Returns the bound as a Python object, or None if there is none."""
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
    """Returns both bounds, and a rejection for each rejected row. A subscription with a bad bound is rejected as a whole; the others are
    not affected. `ids_at(row)` is the id of a row's subscription."""
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
            nan = column.is_nan().fill_null(False).to_numpy()
            for row in np.flatnonzero(nan).tolist():
                refuse(row, name, "NaN is no bound; null means there is none")
        found.append(_spread(batch, table.num_rows))
    return found[0], found[1], refused


def _spread(batch: Any, rows: int) -> BoundColumn:
    """Spreads the values of a lane over all rows of the input; rows without a value are marked."""
    if not batch.lanes or not len(batch.lanes[0]):
        return BoundColumn(_same(0, rows), _same(0.0, rows), _same(False, rows))
    lane = batch.lanes[0]
    values, strings = lane.whole, None
    if lane.strings is not None:
        which, distinct = distinct_of(lane.strings)
        values, strings = which[lane.whole], distinct.tolist()
    if lane.rows is None and batch.positions is None:
        rest = _same(0.0, rows) if lane.rest is None else lane.rest
        return BoundColumn(values, rest, _same(True, rows), strings)
    where = lane.rows if batch.positions is None else batch.positions[lane.rows]
    whole, given = np.zeros(rows, np.int64), np.zeros(rows, np.bool_)
    whole[where], given[where] = values, True
    rest = _same(0.0, rows)
    if lane.rest is not None:
        rest = np.zeros(rows)
        rest[where] = lane.rest
    return BoundColumn(whole, rest, given, strings)


def exact_column(kind: Kind, whole: NDArray[Any], rest: NDArray[np.float64], missing: NDArray[np.bool_]) -> Any | None:
    """Returns bounds of numbers or timestamps as a compact Arrow array, null where one is missing; None if Arrow's types would change
    one: integers beyond 2**53 beside fractions."""
    mask = missing if missing.any() else None
    if kind == Kind.TIMESTAMP:
        return pa.array(np.ascontiguousarray(whole, np.int64), pa.int64(), mask=mask).cast(pa.timestamp("us", "UTC"))
    if not rest.any():
        whole = np.ascontiguousarray(whole)
        small = not len(whole) or (whole.min() >= -(2**31) and whole.max() < 2**31)
        return pa.array(whole.astype(np.int32 if small else np.int64), mask=mask)
    values = np.where(np.abs(rest) >= 2.0**63, rest, whole + rest)
    values[missing] = 0.0
    whole_again, rest_again = split_floats(values)
    exact = (whole_again == whole) & ((0.0 if rest_again is None else rest_again) == rest)
    return pa.array(values, pa.float64(), mask=mask) if (exact | missing).all() else None


def take_rows(column: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Returns column[rows]. A column that is the same in every row still takes no memory."""
    return _same(column[0], len(rows)) if column.strides == (0,) and len(column) else column[rows]


def closed_flags(table: Any, column: str) -> NDArray[np.bool_]:
    """Returns whether each bound is closed: true if the column is missing, and where it is null."""
    if column not in table.column_names:
        return _same(True, table.num_rows)
    flags: NDArray[np.bool_] = table.column(column).fill_null(True).to_numpy()
    return flags


def kind_of(table: Any) -> Kind:
    """Returns the kind of both bounds; a table has bounds of one kind."""
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
    """Returns the column without a dictionary, which may contain nulls. Arrow mostly does this without copying the strings."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _cast_ids(column: Any, kind: Any) -> Any:
    try:
        return column.cast(kind)
    except pa.ArrowInvalid as error:
        raise TableError("id", f"cannot be read as {kind}: {error}") from None


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
