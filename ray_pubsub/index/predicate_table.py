"""Subscriptions in bulk, as a table of intervals: a row per interval, no text to parse.

Rows of one id and one attribute are alternatives (a union of intervals); different attributes must all hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable, Form, Side, TestColumns
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.errors import EventError, Rejection, TableError
from ray_pubsub.index.arrow_table import as_arrow_table
from ray_pubsub.language.normal_form import MIDDLE
from ray_pubsub.language.printer import write
from ray_pubsub.language.tree import Between, Comparison, Constant, Operand, Tree, conjunction, disjunction
from ray_pubsub.model.arrow_events import from_arrow
from ray_pubsub.model.event_batch import EventBatch, Lane
from ray_pubsub.model.values import Kind

__all__ = ["PredicateTable"]


class PredicateTable:
    """The good subscriptions of a table, grouped by id in order of first appearance; `first_slot` is given when they are added."""

    def __init__(self, table: Any) -> None:
        table = _checked(table)
        owner, ids = _owners(_one_array(table.column("id")))
        bounds = from_arrow(table.select(["low", "high"]))
        self.rejections, bad_ids = _rejections(table, bounds, owner, ids)
        if bad_ids:
            good = ~np.isin(owner, list(bad_ids))
            table = table.filter(pa.array(good))
            kept = np.array([number for number in range(len(ids)) if number not in bad_ids], dtype=np.int64)
            owner = np.searchsorted(kept, owner[good])
            ids = [ids[number] for number in kept.tolist()]
            bounds = from_arrow(table.select(["low", "high"]))
        if len(owner) and (owner[1:] < owner[:-1]).any():
            order = np.argsort(owner, kind="stable")
            table, owner = table.take(pa.array(order)), owner[order]
            bounds = from_arrow(table.select(["low", "high"]))
        self.ids: list[str | int] = ids
        self.offsets: NDArray[np.int64] = np.searchsorted(owner, np.arange(len(ids) + 1))
        names = _one_array(table.column("attribute")).dictionary_encode()
        self.attributes: list[str] = names.dictionary.to_pylist()
        narrow = np.uint8 if len(self.attributes) < 2**8 else (np.uint16 if len(self.attributes) < 2**16 else np.int32)
        self.attribute: NDArray[Any] = names.indices.to_numpy(zero_copy_only=False).astype(narrow)
        self._bounds = table.select([name for name in COLUMNS[2:] if name in table.column_names])
        self.low_closed: NDArray[np.bool_] = _flags(table, "low_closed")
        self.high_closed: NDArray[np.bool_] = _flags(table, "high_closed")
        self.kind = _kind_of(table)
        self.first_slot = -1
        self._lanes: list[Lane] | None = bounds.lanes
        self.columnar = self._columnar(owner)

    def _columnar(self, owner: NDArray[np.int64]) -> NDArray[np.bool_]:
        """The subscriptions that are plain records: numbers or timestamps, one interval per attribute, none of them empty."""
        if self.kind not in (Kind.NUMBER, Kind.TIMESTAMP):
            return np.zeros(len(self.ids), dtype=bool)
        plain = np.ones(len(self.ids), dtype=bool)
        plain[owner[self._is_empty()]] = False
        pair = owner * max(1, len(self.attributes)) + self.attribute
        if (pair[1:] <= pair[:-1]).any():
            _, first, count = np.unique(pair, return_index=True, return_counts=True)
            plain[owner[first[count > 1]]] = False
        return plain

    def _is_empty(self) -> NDArray[np.bool_]:
        low_whole, low_rest, has_low = self._values("low")
        high_whole, high_rest, has_high = self._values("high")
        above = (low_whole > high_whole) | ((low_whole == high_whole) & (low_rest > high_rest))
        touching = (low_whole == high_whole) & (low_rest == high_rest) & ~(self.low_closed & self.high_closed)
        empty: NDArray[np.bool_] = has_low & has_high & (above | touching)
        return empty

    def _values(self, column: str) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
        """Per row: whole, rest, and whether there is a bound."""
        if self._lanes is None:
            self._lanes = from_arrow(self._bounds.select(["low", "high"])).lanes
        lane, place = _bound(self._lanes, column, len(self.attribute))
        count = len(self.attribute)
        if lane is None or not len(lane):
            nothing = np.broadcast_to(np.int64(0), count), np.broadcast_to(np.float64(0), count)
            return (*nothing, np.broadcast_to(np.bool_(False), count))
        rest = np.broadcast_to(np.float64(0), len(lane)) if lane.rest is None else lane.rest
        if place is None:
            return lane.whole, rest, np.broadcast_to(np.bool_(True), count)
        return lane.whole[place], rest[place], place >= 0

    def clauses(self, slots: NDArray[np.int64], vocabulary: Vocabulary) -> ClauseTable:
        """The clauses of columnar subscriptions."""
        numbers = slots - self.first_slot
        whole = len(numbers) == len(self.ids)
        lengths = np.diff(self.offsets) if whole else np.diff(self.offsets)[numbers]
        rows: Any = slice(None) if whole else _ranges(self.offsets[numbers], lengths)
        attributes = np.array(vocabulary.attributes.numbers(self.attributes), dtype=np.int32)
        low_whole, low_rest, has_low = self._values("low")
        high_whole, high_rest, has_high = self._values("high")
        self._lanes = None  # the records have them now
        count = len(self.attribute)
        fields: dict[str, NDArray[Any]] = {
            "attribute": attributes[self.attribute],
            "form": np.broadcast_to(np.uint8(Form.INTERVAL), count),
            "kind": np.broadcast_to(np.uint8(self.kind), count),
            "low_side": _sides(has_low, self.low_closed, Side.BEFORE, Side.AFTER),
            "high_side": _sides(has_high, self.high_closed, Side.AFTER, Side.BEFORE),
            "low_whole": low_whole,
            "low_rest": low_rest,
            "high_whole": high_whole,
            "high_rest": high_rest,
        }
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return ClauseTable(len(slots), slots.astype(np.int64), offsets, TestColumns(fields)[rows], [], {})

    @property
    def nbytes(self) -> int:
        lanes = sum(lane.whole.nbytes for lane in self._lanes or ())
        return int(self._bounds.nbytes) + self.offsets.nbytes + self.attribute.nbytes + lanes

    def tree_at(self, slot: int) -> Tree:
        number = slot - self.first_slot
        start, end = int(self.offsets[number]), int(self.offsets[number + 1])
        lanes = from_arrow(self._bounds.select(["low", "high"]).slice(start, end - start)).lanes
        bounds = (_bound(lanes, "low", end - start), _bound(lanes, "high", end - start))
        ways: dict[int, list[Tree]] = {}
        for row in range(start, end):
            attribute = int(self.attribute[row])
            low, high = (self._operand(bound, row - start) for bound in bounds)
            ways.setdefault(attribute, []).append(self._interval(row, self.attributes[attribute], low, high))
        return conjunction([disjunction(alternatives) for alternatives in ways.values()])

    def text_at(self, slot: int) -> str:
        return write(self.tree_at(slot))

    def rows_of(self, numbers: NDArray[np.int64]) -> Any:
        """The table's rows that belong to these of its subscriptions."""
        lengths = np.diff(self.offsets)[numbers]
        rows = _ranges(self.offsets[numbers], lengths)
        owner = pa.array(np.repeat(np.arange(len(numbers)), lengths))
        table = self._bounds.take(pa.array(rows))
        names = pa.DictionaryArray.from_arrays(pa.array(self.attribute[rows]), pa.array(self.attributes))
        table = table.add_column(0, "attribute", names)
        return table.add_column(0, "id", pa.array([self.ids[number] for number in numbers.tolist()]).take(owner))

    def _interval(self, row: int, attribute: str, low: Operand | None, high: Operand | None) -> Tree:
        if low is None and high is None:
            middle = Operand(self.kind, MIDDLE[self.kind])  # any value of the kind
            return disjunction([Comparison(attribute, "<", middle), Comparison(attribute, ">=", middle)])
        if low is not None and high is not None and self.low_closed[row] and self.high_closed[row]:
            return Comparison(attribute, "=", low) if low == high else Between(attribute, low, high)
        both: list[Tree] = []
        if low is not None:
            both.append(Comparison(attribute, ">=" if self.low_closed[row] else ">", low))
        if high is not None:
            both.append(Comparison(attribute, "<=" if self.high_closed[row] else "<", high))
        return conjunction(both) if both else Constant(False)

    def _operand(self, bound: Bound, row: int) -> Operand | None:
        lane, place = bound
        number = row if place is None else int(place[row])
        return None if lane is None or number < 0 else Operand(self.kind, lane.plain(number))


def _sides(bounded: NDArray[np.bool_], closed: NDArray[np.bool_], if_closed: int, if_open: int) -> NDArray[np.uint8]:
    if bounded.strides == closed.strides == (0,) and bounded[:1].all():
        return np.broadcast_to(np.uint8(if_closed), len(bounded))
    return np.where(bounded, np.where(closed, if_closed, if_open), Side.NONE).astype(np.uint8)


def _ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """start, start + 1, … for each start, one after the other."""
    ends = np.cumsum(lengths)
    ranges: NDArray[np.int64] = np.arange(int(lengths.sum())) + np.repeat(starts - (ends - lengths), lengths)
    return ranges


COLUMNS = ("id", "attribute", "low", "high", "low_closed", "high_closed")


def _checked(table: Any) -> Any:
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
    columns = {name: _plain(table.column(name)) for name in COLUMNS if name in table.column_names}
    for name in ("id", "attribute"):
        if columns[name].null_count:
            raise TableError(name, "has nulls")
    if pa.types.is_integer(columns["id"].type):
        columns["id"] = _cast("id", columns["id"], pa.int64())
    elif _is_text(columns["id"].type):
        columns["id"] = _cast("id", columns["id"], pa.string())
    else:
        raise TableError("id", f"ids are strings or integers, not {columns['id'].type}")
    if not _is_text(columns["attribute"].type):
        raise TableError("attribute", f"attribute names are strings, not {columns['attribute'].type}")
    return pa.table(columns)


def _plain(column: Any) -> Any:
    """Without dictionaries (which may hide nulls); Arrow hands most of them over without a copy of the strings."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _cast(name: str, column: Any, kind: Any) -> Any:
    try:
        return column.cast(kind)
    except pa.ArrowInvalid as error:
        raise TableError(name, f"cannot be read as {kind}: {error}") from None


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _owners(ids: Any) -> tuple[NDArray[np.int64], list[Any]]:
    """Each row's subscription, numbered in order of first appearance, and their ids. Rows of an id mostly stand together: then
    comparing neighbours is enough, without hashing every row."""
    if pa.types.is_integer(ids.type) and len(ids):
        values = ids.to_numpy(zero_copy_only=False)
        starts = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
        heads = values[starts]
        if (heads[1:] > heads[:-1]).all() or len(np.unique(heads)) == len(heads):
            owner = np.zeros(len(values), dtype=np.int64)
            owner[starts[1:]] = 1
            return np.cumsum(owner), heads.tolist()
    encoded = ids.dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary.to_pylist()


def _kind_of(table: Any) -> Kind:
    """The kind both bounds have; rows of other kinds go into a table of their own."""
    kinds = {column: _kind_of_type(column, table.column(column).type) for column in ("low", "high")}
    found = {kind for kind in kinds.values() if kind is not None}
    if len(found) != 1:
        types = ", ".join(f"{column} {table.column(column).type}" for column in kinds)
        raise TableError("low", f"low and high must be of one kind ({types})")
    return found.pop()


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


def _rejections(
    table: Any, bounds: EventBatch, owner: NDArray[np.int64], ids: list[Any]
) -> tuple[list[Rejection], set[int]]:
    """A subscription with a bound that is not a value is refused whole, and only it."""
    rejections: dict[int, Rejection] = {}

    def reject(row: int, error: EventError) -> None:
        number = int(owner[row])
        rejections.setdefault(number, Rejection(row, ids[number], TableError(error.attribute, error.reason)))

    for error in bounds.errors:
        assert error.position is not None
        reject(error.position, error)
    for column in ("low", "high"):
        if pa.types.is_floating(table.column(column).type):
            nan = pc.fill_null(pc.is_nan(table.column(column)), False)
            for row in np.flatnonzero(nan.to_numpy()).tolist():
                reject(row, EventError(column, "NaN is no bound; null means there is none"))
    return list(rejections.values()), set(rejections)


Bound = tuple[Lane | None, NDArray[np.int64] | None]
"""The lane of a bound, and for each row its place in the lane, -1 where there is no bound; None if every row has one."""


def _bound(lanes: list[Lane], column: str, rows: int) -> Bound:
    lane = next((lane for lane in lanes if lane.attribute == column), None)
    if lane is not None and lane.rows is None:
        return lane, None
    place = np.full(rows, -1, dtype=np.int64)
    if lane is not None:
        place[lane.rows] = np.arange(len(lane))
    return lane, place


def _flags(table: Any, column: str) -> NDArray[np.bool_]:
    """Closed unless said otherwise."""
    if column not in table.column_names:
        return np.broadcast_to(np.bool_(True), table.num_rows)
    if not pa.types.is_boolean(table.column(column).type):
        raise TableError(column, f"must be boolean, not {table.column(column).type}")
    flags: NDArray[np.bool_] = pc.fill_null(table.column(column), True).to_numpy()
    return flags


def _one_array(column: Any) -> Any:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
