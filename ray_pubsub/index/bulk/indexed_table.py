"""A table of intervals that exists in the index only: its rows are read back from the clauses when they are needed."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.test_records import Form, Side
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.index.bulk.predicate_table import interval_tree
from ray_pubsub.language.printer import write
from ray_pubsub.language.tree import Operand, Tree, conjunction, disjunction
from ray_pubsub.model.values import Kind

__all__ = ["IndexedTable"]


class ClauseStore(Protocol):
    """The index that holds the clauses."""

    def clauses_of(self, slots: NDArray[np.int64]) -> tuple[ClauseTable, Vocabulary]: ...


class IndexedTable:
    """The source of subscriptions that are one clause of intervals each. Keeping the table's columns too would take as much memory as
    the exact bounds in the index."""

    def __init__(self, store: ClauseStore) -> None:
        self.store = store

    def tree_at(self, slot: int) -> Tree:
        table, vocabulary = self.store.clauses_of(np.array([slot]))
        tests: list[list[Tree]] = []
        for record in table.tests[: table.test_count]:
            low = _operand(record["kind"], record["low_side"], record["low_whole"], record["low_rest"])
            high = _operand(record["kind"], record["high_side"], record["high_whole"], record["high_rest"])
            closed = record["low_side"] == Side.BEFORE, record["high_side"] == Side.AFTER
            name = vocabulary.attributes.texts[record["attribute"]]
            if not record["form"] & Form.CONTINUED:
                tests.append([])
            tests[-1].append(interval_tree(name, Kind(record["kind"]), low, high, *map(bool, closed)))
        return conjunction([disjunction(pieces) for pieces in tests])

    def text_at(self, slot: int) -> str:
        return write(self.tree_at(slot))


def _operand(kind: int, side: int, whole: Any, rest: Any) -> Operand | None:
    if side == Side.NONE:
        return None
    whole, rest = int(whole), float(rest)
    return Operand(Kind(kind), whole if rest == 0 else (rest if abs(rest) >= 2.0**63 else whole + rest))
