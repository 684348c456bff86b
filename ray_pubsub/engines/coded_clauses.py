"""Clauses as integer codes: several families of engines build their segments from them, and a saved segment contains them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import CodedTests, code_clauses
from ray_pubsub.columns.coding_state import coded_state, restored_coded
from ray_pubsub.columns.saved_state import SavedState, State, check_within
from ray_pubsub.columns.vocabulary import Vocabulary

__all__ = ["CodedClauses"]


class CodedClauses(NamedTuple):
    """What a segment is built from and saved as: the tests of its clauses as codes, and the owner of each clause."""

    coded: CodedTests
    owners: NDArray[np.int64]

    @classmethod
    def of(cls, clauses: ClauseTable | CodedClauses, vocabulary: Vocabulary) -> CodedClauses:
        if isinstance(clauses, CodedClauses):
            return clauses
        return cls(code_clauses(clauses, vocabulary, sparseness=4), clauses.owners[: clauses.count].copy())

    def state(self, slots: NDArray[np.int64] | None = None) -> State:
        """`slots` maps each slot to the number that is saved for it."""
        return {"owners": self.owners if slots is None else slots[self.owners], "coded": coded_state(self.coded)}

    @classmethod
    def restored(cls, state: SavedState, vocabulary: Vocabulary, slots: int) -> CodedClauses:
        owners = state.array("owners", np.int64, None)
        check_within(owners, 0, slots - 1, "owners")
        return cls(restored_coded(state.state("coded"), vocabulary, len(owners)), owners)
