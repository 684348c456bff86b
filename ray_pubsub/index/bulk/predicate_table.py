"""Subscriptions in bulk, as a table of intervals: a row per interval, no text to parse.

Rows of one id and one attribute are alternatives (a union of intervals); different attributes must all hold.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable, TestColumns
from ray_pubsub.columns.opaque.opaque_sets import OpaqueSets
from ray_pubsub.columns.test_records import Form, Side
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.errors import Rejection
from ray_pubsub.index.bulk.interval_columns import (
    BoundColumn,
    bound_columns,
    checked_table,
    closed_flags,
    exact_column,
    group_by_id,
    kind_of,
    names_of,
    take_rows,
)
from ray_pubsub.kernels.columns.interval_rows import RowBounds, find_plain
from ray_pubsub.language.normal_form import MIDDLE
from ray_pubsub.language.printer import write
from ray_pubsub.language.tree import Between, Comparison, Constant, Operand, Tree, conjunction, disjunction
from ray_pubsub.model.values import Kind

__all__ = ["PredicateTable", "interval_tree"]


class PredicateTable:
    """The good subscriptions of a table, grouped by id in order of first appearance. `first_slot` is set when they are added."""

    def __init__(self, table: Any) -> None:
        table = checked_table(table)
        self.kind = kind_of(table)
        order, offsets, ids = (
            group_by_id(table.column("id").chunk(0)) if table.num_rows else (None, np.zeros(1, np.int64), [])
        )
        self.input_rows: NDArray[np.int64] | None = order
        """The input's row of each row here; None if they are the same."""
        if order is not None:
            table = table.take(pa.array(order))

        def subscription(row: int) -> int:
            return int(np.searchsorted(offsets, row, side="right")) - 1

        def id_at(row: int) -> Any:
            identity = ids[subscription(row)]
            return identity.item() if isinstance(identity, np.generic) else identity

        self._low, self._high, refused = bound_columns(table, id_at)
        self.rejections: list[Rejection] = []
        if refused:
            bad: dict[int, Rejection] = {}
            for row, rejection in sorted(refused.items()):
                bad.setdefault(subscription(row), rejection.at(row if order is None else int(order[row])))
            self.rejections = sorted(bad.values(), key=lambda rejection: rejection.position)
            good = ~np.isin(np.arange(len(ids)), list(bad))
            lengths = np.diff(offsets)
            kept = np.repeat(good, lengths)
            self.input_rows = np.flatnonzero(kept) if order is None else order[kept]
            table = table.filter(pa.array(kept))
            offsets = np.concatenate([[0], np.cumsum(lengths[good])])
            ids = (
                ids[good] if isinstance(ids, np.ndarray) else [ids[number] for number in np.flatnonzero(good).tolist()]
            )
            self._low, self._high, _ = bound_columns(table, id_at)
        self.ids: NDArray[np.int64] | list[str] = ids
        self.offsets: NDArray[np.int64] = offsets.astype(np.int64)
        names = names_of(table.column("attribute"))
        self.attributes, self.attribute = names.texts, names.number
        self.low_closed, self.high_closed = closed_flags(table, "low_closed"), closed_flags(table, "high_closed")
        self.first_slot = -1
        if not self._find_plain():
            self._order_attributes()
            self._find_plain()

    def _find_plain(self) -> bool:
        """Finds the subscriptions that are plain records of numbers or timestamps, and the rows that continue the test of the row before.
        Returns False if the rows of a subscription must be sorted by attribute first."""
        self.plain = np.zeros(len(self.ids), dtype=np.bool_)
        self._continued = np.zeros(len(self.attribute), dtype=np.bool_)
        if self.kind not in (Kind.NUMBER, Kind.TIMESTAMP):
            return True
        low, high = (
            RowBounds(*map(_read_only, (bound.whole, bound.rest, bound.given, closed)))
            for bound, closed in ((self._low, self.low_closed), (self._high, self.high_closed))
        )
        offsets, attribute = _read_only(self.offsets), _read_only(self.attribute.astype(np.int32, copy=False))
        last = np.full(len(self.attributes), -1, dtype=np.int64)
        return bool(find_plain(offsets, attribute, low, high, last, self.plain, self._continued))

    def _order_attributes(self) -> None:
        """Sorts rows so that those of one subscription and attribute are neighbours."""
        owner = np.repeat(np.arange(len(self.ids)), np.diff(self.offsets))
        order = np.lexsort((self.attribute, owner))
        self.input_rows = order if self.input_rows is None else self.input_rows[order]
        self._take_rows(order)

    def _take_rows(self, rows: NDArray[np.int64]) -> None:
        self.attribute = self.attribute[rows]
        self.low_closed, self.high_closed = take_rows(self.low_closed, rows), take_rows(self.high_closed, rows)
        self._low, self._high = self._low.take(rows), self._high.take(rows)

    def has_sets(self) -> NDArray[np.bool_]:
        """Returns for each subscription whether an attribute has several intervals."""
        found = np.zeros(len(self.ids), dtype=np.bool_)
        found[np.searchsorted(self.offsets, np.flatnonzero(self._continued), side="right") - 1] = True
        return found

    def take(self, numbers: NDArray[np.int64]) -> PredicateTable:
        """Returns a table of these subscriptions only; the numbers must ascend."""
        if len(numbers) == len(self.ids):
            return self
        found = copy.copy(self)
        lengths = np.diff(self.offsets)[numbers]
        rows = _ranges(self.offsets[numbers], lengths)
        found.ids = (
            self.ids[numbers] if isinstance(self.ids, np.ndarray) else [self.ids[number] for number in numbers.tolist()]
        )
        found.offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        found.plain, found._continued = self.plain[numbers], self._continued[rows]
        found.input_rows = rows if self.input_rows is None else self.input_rows[rows]
        found._take_rows(rows)
        return found

    def clauses(self, slots: NDArray[np.int64], vocabulary: Vocabulary) -> ClauseTable:
        """Returns the clauses of plain subscriptions."""
        rows, lengths = self._rows_of(slots)
        attributes = np.array(vocabulary.attributes.numbers(self.attributes), dtype=np.int32)
        count = len(self.attribute)
        runs = bool(self._continued.any())
        fields: dict[str, NDArray[Any]] = {
            "attribute": attributes[self.attribute],
            "form": self._continued * np.uint8(Form.CONTINUED)
            if runs
            else np.broadcast_to(np.uint8(Form.INTERVAL), count),
            "kind": np.broadcast_to(np.uint8(self.kind), count),
            "low_side": _sides(self._low.given, self.low_closed, Side.BEFORE, Side.AFTER),
            "high_side": _sides(self._high.given, self.high_closed, Side.AFTER, Side.BEFORE),
            "low_whole": self._low.whole,
            "low_rest": self._low.rest,
            "high_whole": self._high.whole,
            "high_rest": self._high.rest,
        }
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return ClauseTable(len(slots), slots.astype(np.int64), offsets, TestColumns(fields)[rows], OpaqueSets.empty())

    def arrow(self, slots: NDArray[np.int64]) -> Any | None:
        """Returns the rows of plain subscriptions as `MatchIndex.add_predicates` takes them, with the slots as ids; None if no Arrow
        type holds the bounds exactly."""
        rows, lengths = self._rows_of(slots)
        number = pa.array(self.attribute[rows].astype(np.int32))
        attributes = pa.DictionaryArray.from_arrays(number, pa.array(self.attributes, pa.string()))
        columns: dict[str, Any] = {"id": np.repeat(slots, lengths), "attribute": attributes}
        for name, bound, closed in (("low", self._low, self.low_closed), ("high", self._high, self.high_closed)):
            columns[name] = exact_column(self.kind, bound.whole[rows], bound.rest[rows], ~bound.given[rows])
            if columns[name] is None:
                return None
            columns[f"{name}_closed"] = pa.array(np.ascontiguousarray(closed[rows]))
        return pa.table(columns)

    def _rows_of(self, slots: NDArray[np.int64]) -> tuple[Any, NDArray[np.int64]]:
        """Returns the rows of these subscriptions, and the number of rows of each."""
        lengths = np.diff(self.offsets)
        if len(slots) == len(self.ids):
            return slice(None), lengths
        numbers = slots - self.first_slot
        return _ranges(self.offsets[numbers], lengths[numbers]), lengths[numbers]

    @property
    def nbytes(self) -> int:
        arrays = [self.offsets, self.attribute, self.low_closed, self.high_closed]
        for bound in (self._low, self._high):
            arrays += [bound.whole, bound.rest, bound.given]
        return sum(array.nbytes for array in arrays if array.strides != (0,))

    def tree_at(self, slot: int) -> Tree:
        number = slot - self.first_slot
        ways: dict[int, list[Tree]] = {}
        for row in range(int(self.offsets[number]), int(self.offsets[number + 1])):
            attribute = int(self.attribute[row])
            low, high = self._operand(self._low, row), self._operand(self._high, row)
            closed = bool(self.low_closed[row]), bool(self.high_closed[row])
            tree = interval_tree(self.attributes[attribute], self.kind, low, high, *closed)
            ways.setdefault(attribute, []).append(tree)
        return conjunction([disjunction(alternatives) for alternatives in ways.values()])

    def text_at(self, slot: int) -> str:
        return write(self.tree_at(slot))

    def _operand(self, bound: BoundColumn, row: int) -> Operand | None:
        value = bound.at(row, self.kind)
        return None if value is None else Operand(self.kind, value)


def interval_tree(
    attribute: str, kind: Kind, low: Operand | None, high: Operand | None, low_closed: bool, high_closed: bool
) -> Tree:
    """Returns the predicate of an interval, as a tree."""
    if low is None and high is None:
        middle = Operand(kind, MIDDLE[kind])  # any value of the kind
        return disjunction([Comparison(attribute, "<", middle), Comparison(attribute, ">=", middle)])
    if low is not None and high is not None and low_closed and high_closed:
        return Comparison(attribute, "=", low) if low == high else Between(attribute, low, high)
    both: list[Tree] = []
    if low is not None:
        both.append(Comparison(attribute, ">=" if low_closed else ">", low))
    if high is not None:
        both.append(Comparison(attribute, "<=" if high_closed else "<", high))
    return conjunction(both) if both else Constant(False)


def _sides(bounded: NDArray[np.bool_], closed: NDArray[np.bool_], if_closed: int, if_open: int) -> NDArray[np.uint8]:
    if bounded.strides == closed.strides == (0,) and bounded[:1].all() and closed[:1].all():
        return np.broadcast_to(np.uint8(if_closed), len(bounded))
    return np.where(bounded, np.where(closed, if_closed, if_open), Side.NONE).astype(np.uint8)


def _read_only(column: NDArray[Any]) -> NDArray[Any]:
    """Makes a column contiguous and read-only, so that the kernel is compiled for one type of array only."""
    found = np.ascontiguousarray(column).view()
    found.flags.writeable = False
    return found


def _ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns start, start + 1, … for each start, concatenated."""
    ends = np.cumsum(lengths)
    ranges: NDArray[np.int64] = np.arange(int(lengths.sum())) + np.repeat(starts - (ends - lengths), lengths)
    return ranges
