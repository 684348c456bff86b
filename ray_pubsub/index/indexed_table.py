"""A table of intervals whose rows are in the index and nowhere else: read back from its clauses when someone asks."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable, Side
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.index.predicate_table import interval_tree
from ray_pubsub.language.printer import write
from ray_pubsub.language.tree import Operand, Tree, conjunction
from ray_pubsub.model.event_batch import split_floats
from ray_pubsub.model.values import Kind

__all__ = ["IndexedTable", "interval_rows"]


class ClauseStore(Protocol):
    """What holds the clauses."""

    def clauses_of(self, slots: NDArray[np.int64]) -> tuple[ClauseTable, Vocabulary]: ...


class IndexedTable:
    """The source of subscriptions that are one clause of plain intervals each. Keeping the table's columns too would cost as much
    memory as the exact bounds in the index."""

    def __init__(self, store: ClauseStore) -> None:
        self.store = store

    def tree_at(self, slot: int) -> Tree:
        table, vocabulary = self.store.clauses_of(np.array([slot]))
        trees = []
        for test in table.tests[: table.test_count]:
            low = _operand(test["kind"], test["low_side"], test["low_whole"], test["low_rest"])
            high = _operand(test["kind"], test["high_side"], test["high_whole"], test["high_rest"])
            closed = test["low_side"] == Side.BEFORE, test["high_side"] == Side.AFTER
            name = vocabulary.attributes.texts[test["attribute"]]
            trees.append(interval_tree(name, Kind(test["kind"]), low, high, *map(bool, closed)))
        return conjunction(trees)

    def text_at(self, slot: int) -> str:
        return write(self.tree_at(slot))


def _operand(kind: int, side: int, whole: Any, rest: Any) -> Operand | None:
    if side == Side.NONE:
        return None
    whole, rest = int(whole), float(rest)
    return Operand(Kind(kind), whole if rest == 0 else (rest if abs(rest) >= 2.0**63 else whole + rest))


def interval_rows(ids: NDArray[Any], table: ClauseTable, vocabulary: Vocabulary) -> Any | None:
    """The clauses of plain intervals as the table that `add_predicates` takes, `ids` by clause; None if no Arrow type holds the bounds
    exactly (integers beyond 2**53 beside fractions), or if they are of several kinds."""
    tests = table.tests[: table.test_count]
    kinds = np.unique(tests["kind"])
    if len(kinds) != 1:
        return None
    owner = np.repeat(np.arange(table.count), np.diff(table.offsets[: table.count + 1]))
    names = pa.array(vocabulary.attributes.texts, pa.string())
    identities = pa.array(ids[owner] if ids.dtype == np.int64 else ids[owner].tolist())
    columns: dict[str, Any] = {
        "id": identities,
        "attribute": pa.DictionaryArray.from_arrays(pa.array(tests["attribute"], pa.int32()), names),
    }
    for name, closed in (("low", Side.BEFORE), ("high", Side.AFTER)):
        bounds = _exact_column(
            Kind(int(kinds[0])), tests[f"{name}_whole"], tests[f"{name}_rest"], tests[f"{name}_side"]
        )
        if bounds is None:
            return None
        columns[name] = bounds
        if (tests[f"{name}_side"] == Side.AFTER - closed).any():
            columns[f"{name}_closed"] = pa.array(tests[f"{name}_side"] == closed)
    return pa.table(columns)


def _exact_column(
    kind: Kind, whole: NDArray[np.int64], rest: NDArray[np.float64], side: NDArray[np.uint8]
) -> Any | None:
    none = side == Side.NONE
    mask = none if none.any() else None
    if kind == Kind.TIMESTAMP:
        return pa.array(whole, pa.int64(), mask=mask).cast(pa.timestamp("us", "UTC"))
    if not (rest != 0).any():
        return pa.array(whole, pa.int64(), mask=mask)
    values = np.where(np.abs(rest) >= 2.0**63, rest, whole + rest)
    values[none] = 0.0
    whole_again, rest_again = split_floats(values)
    exact = (whole_again == whole) & ((0.0 if rest_again is None else rest_again) == rest)
    return pa.array(values, pa.float64(), mask=mask) if (exact | none).all() else None
