"""Reads rules in bulk from a table of intervals with a level: the columns of `MatchIndex.add_predicates`, and a column `level`.

Rules of numbers or times with one interval per attribute stay in columns; the few others (strings, booleans, alternatives, empty
intervals) are converted to expressions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ray_pubsub.errors import RayPubSubError, Rejection, TableError, UnknownLevelError
from ray_pubsub.index.bulk.interval_columns import is_text, one_array, plain_column
from ray_pubsub.index.bulk.predicate_table import PredicateTable
from ray_pubsub.model.arrow.arrow_table import as_arrow_table
from ray_pubsub.priority.levels import Levels

__all__ = ["ReadRules", "read_rules"]


class ReadRules(NamedTuple):
    """The good rules of a table, those in columns and those written out, and the bad ones."""

    table: PredicateTable
    ids: list[Any]
    """Of the rules in columns."""
    levels: NDArray[np.uint8]
    written: list[tuple[Any, int, str]]
    """id, level, expression."""
    rejections: list[Rejection]


def read_rules(table: Any, levels: Levels) -> ReadRules:
    """Returns the rules of a table; raises TableError if it cannot be read at all."""
    table = as_arrow_table(table, "rules")
    by_row, unknown = _levels_of_rows(table, levels)
    predicates = PredicateTable(table)
    predicates.first_slot = 0
    ids = predicates.ids.tolist() if isinstance(predicates.ids, np.ndarray) else predicates.ids
    level, bad = _levels_of_rules(predicates, by_row, unknown, ids)
    good = np.ones(len(ids), dtype=bool)
    good[list(bad)] = False
    in_columns = good & predicates.plain & ~predicates.has_sets()
    kept = predicates.take(np.flatnonzero(in_columns))
    if kept.arrow(np.arange(len(kept.ids))) is None:  # bounds that the match indexes could not be given in columns
        in_columns[:] = False
        kept = predicates.take(np.flatnonzero(in_columns))
    chosen = np.flatnonzero(in_columns)
    written = np.flatnonzero(good & ~in_columns).tolist()
    return ReadRules(
        kept,
        [ids[number] for number in chosen.tolist()],
        level[chosen],
        [(ids[number], int(level[number]), predicates.text_at(number)) for number in written],
        sorted([*predicates.rejections, *bad.values()], key=lambda rejection: rejection.position),
    )


def _levels_of_rows(table: Any, levels: Levels) -> tuple[NDArray[np.int64], dict[int, RayPubSubError]]:
    """Returns each row's level, or for an unknown name a negative number, with the error of each such number."""
    if "level" not in table.column_names:
        needed = "id, level, attribute, low, high and, if wanted, low_closed, high_closed"
        raise TableError("level", f"missing; rules have the columns {needed}")
    column = plain_column(table.column("level"))
    if not is_text(column.type):
        raise TableError("level", f"must be strings, not {column.type}")
    encoded = one_array(column).dictionary_encode()
    numbers: list[int] = []
    errors: dict[int, RayPubSubError] = {}
    for name in [*encoded.dictionary.to_pylist(), None]:
        try:
            numbers.append(levels.number(name))
        except UnknownLevelError as error:
            numbers.append(-1 - len(errors))
            errors[numbers[-1]] = error
    places = pc.fill_null(encoded.indices.cast(pa.int64()), len(numbers) - 1).to_numpy(zero_copy_only=False)
    return np.array(numbers)[places], errors


def _levels_of_rules(
    predicates: PredicateTable, by_row: NDArray[np.int64], errors: dict[int, RayPubSubError], ids: list[Any]
) -> tuple[NDArray[np.uint8], dict[int, Rejection]]:
    """Returns each rule's level, and the rules that have none or several: number → Rejection, at the first such row."""
    if not ids:
        return np.empty(0, np.uint8), {}
    rows = np.arange(len(predicates.attribute)) if predicates.input_rows is None else predicates.input_rows
    owner = np.repeat(np.arange(len(ids)), np.diff(predicates.offsets))
    level = by_row[np.minimum.reduceat(rows, predicates.offsets[:-1])]
    own = by_row[rows]
    wrong = np.flatnonzero((own < 0) | (own != level[owner]))
    bad: dict[int, Rejection] = {}
    for place in wrong[np.argsort(rows[wrong])].tolist():
        number, row = int(owner[place]), int(rows[place])
        different = TableError("level", "the rows of one rule have different levels")
        bad.setdefault(number, Rejection(row, ids[number], errors.get(int(own[place]), different)))
    return np.maximum(level, 0).astype(np.uint8), bad
