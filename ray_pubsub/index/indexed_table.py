"""A table of intervals whose rows are in the index and nowhere else: read back from its clauses when someone asks."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable, Side
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.index.predicate_table import interval_tree
from ray_pubsub.language.printer import write
from ray_pubsub.language.tree import Operand, Tree, conjunction
from ray_pubsub.model.values import Kind

__all__ = ["IndexedTable"]


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
