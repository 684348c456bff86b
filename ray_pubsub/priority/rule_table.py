"""Rules in bulk, as a table of intervals with a level: a row per interval, no text to parse, columns throughout.

Rows of one rule and one attribute are alternatives; different attributes must all hold. Rules of numbers or times with one interval per
attribute stay in columns; the few others (strings, booleans, alternatives, empty intervals) are written out as expressions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable, Form, Side, TestColumns
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.errors import RayPubSubError, Rejection, TableError
from ray_pubsub.index.interval_columns import closed_flags, kind_of, one_array
from ray_pubsub.index.predicate_table import interval_tree
from ray_pubsub.language.printer import write
from ray_pubsub.language.tree import Operand, Tree, conjunction, disjunction
from ray_pubsub.model.arrow_events import from_arrow
from ray_pubsub.model.event_batch import EventBatch, Lane
from ray_pubsub.model.values import Kind
from ray_pubsub.priority.levels import Levels
from ray_pubsub.priority.rule_columns import checked_columns, without_bad

__all__ = ["RuleTable", "read_rules"]


class RuleTable:
    """Rules in columns: rule number first_number + i has the rows offsets[i]:offsets[i + 1]."""

    def __init__(self, kind: Kind, attributes: list[str], offsets: NDArray[np.int64], rows: dict[str, Any]) -> None:
        self.kind = kind
        self.attributes = attributes
        self.offsets = offsets
        self._rows = rows
        self.first_number = -1

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def clauses(self, numbers: NDArray[np.int64], vocabulary: Vocabulary) -> ClauseTable:
        """The clauses of these rules (ascending): one each."""
        rows, lengths = self._rows_of(numbers)
        attribute = np.array(vocabulary.attributes.numbers(self.attributes), dtype=np.int32)
        fields = {name: part[rows] for name, part in self._rows.items() if name != "attribute"}
        count = int(lengths.sum())
        fields["attribute"] = attribute[self._rows["attribute"][rows]]
        fields["form"] = np.broadcast_to(np.uint8(Form.INTERVAL), count)
        fields["kind"] = np.broadcast_to(np.uint8(self.kind), count)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return ClauseTable(len(numbers), numbers.astype(np.int64), offsets, TestColumns(fields), [], {})

    def arrow(self, numbers: NDArray[np.int64]) -> Any:
        """The rows of these rules for `MatchIndex.add_predicates`, with the numbers as ids."""
        rows, lengths = self._rows_of(numbers)
        names = pa.DictionaryArray.from_arrays(pa.array(self._rows["attribute"][rows]), pa.array(self.attributes))
        columns = {"id": np.repeat(numbers, lengths), "attribute": names}
        for end, closed in (("low", Side.BEFORE), ("high", Side.AFTER)):
            side = self._rows[f"{end}_side"][rows]
            columns[end] = self._bound(end, rows, side == Side.NONE)
            columns[f"{end}_closed"] = pa.array((side == closed) | (side == Side.NONE))
        return pa.table(columns)

    def _bound(self, end: str, rows: Any, missing: NDArray[np.bool_]) -> Any:
        whole, rest = self._rows[f"{end}_whole"][rows], self._rows[f"{end}_rest"][rows]
        if self.kind == Kind.TIMESTAMP:
            return pa.array(whole, mask=missing).cast(pa.timestamp("us"))
        if not len(whole) or all(_is_constant(self._rows[f"{each}_rest"]) for each in ("low", "high")):
            return pa.array(whole, mask=missing)
        return pa.array(np.where(np.abs(rest) >= 2.0**63, rest, whole + rest), mask=missing)

    def tree_at(self, number: int) -> Tree:
        place = number - self.first_number
        tests = []
        for row in range(int(self.offsets[place]), int(self.offsets[place + 1])):
            low, high = (self._operand(end, row) for end in ("low", "high"))
            closed = self._rows["low_side"][row] == Side.BEFORE, self._rows["high_side"][row] == Side.AFTER
            tests.append(
                interval_tree(self.attributes[int(self._rows["attribute"][row])], self.kind, low, high, *closed)
            )
        return conjunction(tests)

    def text_at(self, number: int) -> str:
        return write(self.tree_at(number))

    def _operand(self, end: str, row: int) -> Operand | None:
        if self._rows[f"{end}_side"][row] == Side.NONE:
            return None
        whole, rest = int(self._rows[f"{end}_whole"][row]), float(self._rows[f"{end}_rest"][row])
        return Operand(self.kind, whole if rest == 0 else (rest if abs(rest) >= 2.0**63 else whole + rest))

    def _rows_of(self, numbers: NDArray[np.int64]) -> tuple[Any, NDArray[np.int64]]:
        places = numbers - self.first_number
        lengths = np.diff(self.offsets)
        if len(places) == len(self):
            return slice(None), lengths
        lengths = lengths[places]
        before = np.cumsum(lengths) - lengths
        return np.arange(int(lengths.sum())) + np.repeat(self.offsets[places] - before, lengths), lengths

    @property
    def nbytes(self) -> int:
        return int(sum(part.nbytes for part in self._rows.values() if part.strides != (0,)) + self.offsets.nbytes)


class ReadRules:
    """A table's good rules: those in columns and those written out, with ids and level numbers; and the bad ones."""

    def __init__(self) -> None:
        self.table: RuleTable | None = None
        self.ids: list[Any] = []
        self.levels: NDArray[np.uint8] = np.empty(0, np.uint8)
        self.written: list[tuple[Any, int, str]] = []
        """id, level, expression."""
        self.rejections: list[Rejection] = []


def read_rules(table: Any, levels: Levels) -> ReadRules:
    """The rules of a table; raises TableError if it cannot be read at all."""
    table = checked_columns(table)
    found = ReadRules()
    kind = kind_of(table)
    encoded = one_array(table.column("id")).dictionary_encode()
    owner = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    ids = encoded.dictionary.to_pylist()
    bounds = from_arrow(table.select(["low", "high"]))
    problems, level = _problems(table, levels, bounds, owner, len(ids))
    for number, (row, error) in sorted(problems.items(), key=lambda item: item[1][0]):
        found.rejections.append(Rejection(row, ids[number], error))
    if bounds.errors:
        table = table.set_column(table.column_names.index("low"), "low", without_bad(table, "low", bounds))
        table = table.set_column(table.column_names.index("high"), "high", without_bad(table, "high", bounds))
        bounds = from_arrow(table.select(["low", "high"]))
    good = np.ones(len(ids), dtype=bool)
    good[list(problems)] = False
    names = one_array(table.column("attribute")).dictionary_encode()
    attributes: list[str] = names.dictionary.to_pylist()
    attribute = names.indices.to_numpy(zero_copy_only=False).astype(np.int32)
    rows = _bounds(table, bounds.lanes)
    in_columns = good & _columnar(table, kind, owner, attribute, rows, len(ids))
    order: Any = slice(None)
    if not in_columns.all() or (owner[1:] < owner[:-1]).any():
        order = np.argsort(owner, kind="stable")
        order = order[in_columns[owner[order]]]
    kept = np.flatnonzero(in_columns)
    counts = np.bincount(owner, minlength=len(ids))[kept]
    found.ids = ids if len(kept) == len(ids) else [ids[number] for number in kept.tolist()]
    found.levels = level[kept]
    chosen = {name: _taken(part, order) for name, part in {**rows, "attribute": attribute}.items()}
    found.table = RuleTable(kind, attributes, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), chosen)
    written = np.flatnonzero(good & ~in_columns)
    if len(written):
        trees = _trees(kind, attributes, attribute, owner, set(written.tolist()), table, bounds.lanes)
        found.written = [(ids[number], int(level[number]), write(trees[number])) for number in written.tolist()]
    return found


def _taken(part: NDArray[Any], order: Any) -> NDArray[Any]:
    """part[order]; a column that is zero throughout keeps taking no memory."""
    return np.broadcast_to(part[0], int(np.arange(len(part))[order].size)) if _is_constant(part) else part[order]


def _is_constant(part: NDArray[Any]) -> bool:
    return len(part) > 0 and part.strides == (0,)


def _problems(
    table: Any, levels: Levels, bounds: EventBatch, owner: NDArray[np.int64], count: int
) -> tuple[dict[int, tuple[int, RayPubSubError]], NDArray[np.uint8]]:
    """Per bad rule the row and the error, and every rule's level. A rule with one bad row is refused whole, and only it."""
    problems: dict[int, tuple[int, RayPubSubError]] = {}
    for error in bounds.errors:
        assert error.position is not None
        problem = (error.position, TableError(error.attribute, error.reason))
        problems.setdefault(int(owner[error.position]), problem)
    for column in ("low", "high"):
        if pa.types.is_floating(table.column(column).type):
            nan = pc.fill_null(pc.is_nan(table.column(column)), False)
            for row in np.flatnonzero(nan.to_numpy()).tolist():
                reason = TableError(column, "NaN is no bound; null means there is none")
                problems.setdefault(int(owner[row]), (row, reason))
    encoded = one_array(table.column("level")).dictionary_encode()
    numbers, errors = [], {}
    for place, name in enumerate(encoded.dictionary.to_pylist()):
        try:
            numbers.append(levels.number(name))
        except RayPubSubError as error:
            numbers.append(0)
            errors[place] = error
    place_of = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    bad = (place_of < 0) | np.isin(place_of, list(errors))
    for row in np.flatnonzero(bad).tolist():
        reason_ = errors.get(int(place_of[row])) or levels_error(levels)
        problems.setdefault(int(owner[row]), (row, reason_))
    by_row = np.array([*numbers, 0], dtype=np.uint8)[place_of]
    first = np.zeros(count, dtype=np.int64)
    first[owner[::-1]] = np.arange(len(owner))[::-1]  # the last assignment stays: the rule's first row
    level = by_row[first]
    for row in np.flatnonzero(by_row != level[owner]).tolist():
        problems.setdefault(int(owner[row]), (row, TableError("level", "the rows of one rule have different levels")))
    return problems, level


def levels_error(levels: Levels) -> RayPubSubError:
    try:
        levels.number(None)
    except RayPubSubError as error:
        return error
    raise AssertionError


def _columnar(
    table: Any, kind: Kind, owner: Any, attribute: Any, rows: dict[str, Any], count: int
) -> NDArray[np.bool_]:
    """The rules that are plain records: numbers or times, one interval per attribute, none of them empty."""
    plain_types = all(not pa.types.is_decimal(table.column(end).type) for end in ("low", "high"))
    types = [table.column(end).type for end in ("low", "high") if not pa.types.is_null(table.column(end).type)]
    mixed = len({pa.types.is_integer(each) for each in types}) > 1
    if kind not in (Kind.NUMBER, Kind.TIMESTAMP) or not plain_types or mixed:
        return np.zeros(count, dtype=bool)
    plain = np.ones(count, dtype=bool)
    low, high = ((rows[f"{end}_whole"], rows[f"{end}_rest"]) for end in ("low", "high"))
    above = (low[0] > high[0]) | ((low[0] == high[0]) & (low[1] > high[1]))
    open_ = ~((rows["low_side"] == Side.BEFORE) & (rows["high_side"] == Side.AFTER))
    empty = above | ((low[0] == high[0]) & (low[1] == high[1]) & open_)
    plain[owner[empty & (rows["low_side"] != Side.NONE) & (rows["high_side"] != Side.NONE)]] = False
    pair = owner * np.int64(attribute.max(initial=0) + 1) + attribute
    if (pair[1:] <= pair[:-1]).any():
        ordered = np.sort(pair)
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        plain[repeated // (attribute.max(initial=0) + 1)] = False
    return plain


def _bounds(table: Any, lanes: list[Lane]) -> dict[str, NDArray[Any]]:
    """Side, whole and rest of both bounds, row by row. A rest that is zero throughout takes no memory."""
    count = table.num_rows
    rows: dict[str, NDArray[Any]] = {}
    for end, if_closed, if_open in (("low", Side.BEFORE, Side.AFTER), ("high", Side.AFTER, Side.BEFORE)):
        lane = next((lane for lane in lanes if lane.attribute == end), None)
        whole: NDArray[Any] = np.zeros(count, dtype=np.int64)
        rest: NDArray[Any] = np.broadcast_to(np.float64(0), count)
        bounded = np.zeros(count, dtype=bool)
        if lane is not None:
            chosen: Any = slice(None) if lane.rows is None else lane.rows
            whole[chosen], bounded[chosen] = lane.whole, True
            if lane.rest is not None:
                rest = np.zeros(count)
                rest[chosen] = lane.rest
        closed = closed_flags(table, f"{end}_closed")
        rows[f"{end}_side"] = np.where(bounded, np.where(closed, if_closed, if_open), Side.NONE).astype(np.uint8)
        rows[f"{end}_whole"], rows[f"{end}_rest"] = whole, rest
    return rows


def _trees(
    kind: Kind, attributes: list[str], attribute: Any, owner: Any, wanted: set[int], table: Any, lanes: list[Lane]
) -> dict[int, Tree]:
    """The expressions of the rules that are not in columns."""
    closed = closed_flags(table, "low_closed"), closed_flags(table, "high_closed")
    by_rule: dict[int, dict[int, list[Tree]]] = {}
    operands = [_operands(kind, lanes, end) for end in ("low", "high")]
    for row in np.flatnonzero(np.isin(owner, list(wanted))).tolist():
        low, high = (each.get(row) for each in operands)
        number = int(attribute[row])
        tree = interval_tree(attributes[number], kind, low, high, bool(closed[0][row]), bool(closed[1][row]))
        by_rule.setdefault(int(owner[row]), {}).setdefault(number, []).append(tree)
    return {
        rule: conjunction([disjunction(alternatives) for alternatives in ways.values()])
        for rule, ways in by_rule.items()
    }


def _operands(kind: Kind, lanes: list[Lane], end: str) -> dict[int, Operand]:
    lane = next((lane for lane in lanes if lane.attribute == end), None)
    if lane is None:
        return {}
    rows = range(len(lane)) if lane.rows is None else lane.rows.tolist()
    return {row: Operand(kind, lane.plain(place)) for place, row in enumerate(rows)}
