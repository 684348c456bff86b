"""Checks tests of several intervals, for engines whose kernels handle one interval per test."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.coding import CodedTests
from ray_pubsub.columns.coding_state import Pieces, pieces_state, restored_pieces
from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.columns.saved_state import SavedState, State, check, check_within
from ray_pubsub.kernels.dense.interval_gaps import keep_inside

__all__ = ["IntervalGaps"]


class IntervalGaps:
    """The tests of several intervals. Kernels see only their hulls, so the gaps between the intervals are checked here."""

    @classmethod
    def of(cls, coded: CodedTests, *, toggled: bool = False) -> IntervalGaps | None:
        """Returns the gaps of coded tests, or None if there are none. `toggled`: only those that an engine which toggles gaps may not
        exclude, of clauses that test a column twice (kernels/papers/gap_toggles.py)."""
        if coded.pieces is None or not (coded.pieces >= 0).any():
            return None
        chosen, clauses = np.flatnonzero(coded.pieces >= 0), len(coded.offsets) - 1
        owner = np.repeat(np.arange(clauses), np.diff(coded.offsets))[chosen]
        if toggled:
            keys, counts = np.unique(owner * coded.space.columns + coded.column[chosen], return_counts=True)
            kept = np.isin(owner, keys[counts > 1] // coded.space.columns)
            if not kept.any():
                return None
            chosen, owner = chosen[kept], owner[kept]
        parts = (coded.piece_offsets, coded.piece_low, coded.piece_high)
        return cls(owner, coded.column[chosen], coded.pieces[chosen], parts, clauses, coded.space.columns)

    def __init__(
        self,
        owner: NDArray[np.int64],
        column: NDArray[np.int32],
        pieces: NDArray[np.int32],
        parts: Pieces,
        clauses: int,
        columns: int,
    ) -> None:
        """`owner`, `column`, `pieces`: of the tests with gaps, ordered by clause."""
        self._offsets = np.searchsorted(owner, np.arange(clauses + 1))
        self._column, self._pieces = column, pieces
        self._parts = parts
        self._holed = np.diff(self._offsets) > 0
        self._columns = columns
        self._owner = owner

    @property
    def clauses(self) -> int:
        """The number of clauses with gaps."""
        return int(np.count_nonzero(self._holed))

    def state(self) -> State:
        return {
            "owner": self._owner,
            "column": self._column,
            "pieces": self._pieces,
            **pieces_state(*self._parts),
        }

    @classmethod
    def restored(cls, state: SavedState, clauses: int, columns: int) -> IntervalGaps:
        owner, parts = state.array("owner", np.int64, None), restored_pieces(state)
        column, pieces = state.array("column", np.int32, len(owner)), state.array("pieces", np.int32, len(owner))
        check_within(owner, 0, clauses - 1, "clauses with holes")
        check((owner[1:] >= owner[:-1]).all(), "clauses with holes do not ascend")
        check_within(column, 0, columns - 1, "columns")
        check_within(pieces, 0, len(parts[0]) - 2, "pieces")
        return cls(owner, column, pieces, parts, clauses, columns)

    def settle(self, codes: EventCodes, offsets: NDArray[np.int64], numbers: NDArray[Any]) -> None:
        cells = (codes.offsets, codes.column, codes.code)
        gaps = (self._offsets, self._column, self._pieces, *self._parts, self._holed)
        keep_inside(cells, gaps, np.zeros(self._columns, np.int32), offsets, numbers)

    def pieces_of(self, clause: NDArray[np.int64], column: NDArray[np.int64]) -> tuple[Any, ...]:
        """Returns for tests given by clause and column, in that order, the number of their pieces; -1 for those of one interval."""
        key = clause * self._columns + column
        pieces = np.full(len(key), -1, dtype=np.int32)
        wanted = self._owner * self._columns + self._column
        place = np.searchsorted(key, wanted)
        found = np.flatnonzero(key[np.minimum(place, len(key) - 1)] == wanted) if len(key) else place[:0]
        pieces[place[found]] = self._pieces[found]
        return (pieces, *self._parts)
