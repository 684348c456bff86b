"""Tests of more than one interval, in engines whose kernels know one interval per test."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.coding import CodedTests
from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.kernels.pieces import keep_inside

__all__ = ["Holes"]


class Holes:
    """The tests of more than one interval: kernels see their hulls."""

    @classmethod
    def of(cls, coded: CodedTests) -> Holes | None:
        """The holes of coded tests, None if there are none."""
        return cls(coded) if coded.pieces is not None and (coded.pieces >= 0).any() else None

    def __init__(self, coded: CodedTests) -> None:
        assert coded.pieces is not None
        chosen = np.flatnonzero(coded.pieces >= 0)
        owner = np.repeat(np.arange(len(coded.offsets) - 1), np.diff(coded.offsets))[chosen]
        self._offsets = np.searchsorted(owner, np.arange(len(coded.offsets)))
        self._column, self._pieces = coded.column[chosen], coded.pieces[chosen]
        self._parts = (coded.piece_offsets, coded.piece_low, coded.piece_high)
        self._holed = np.diff(self._offsets) > 0
        self._columns = coded.space.columns
        self._owner = owner

    def settle(self, codes: EventCodes, offsets: NDArray[np.int64], numbers: NDArray[Any]) -> None:
        keep_inside(
            codes.offsets, codes.column, codes.code, self._offsets, self._column, self._pieces, *self._parts,
            self._holed, np.zeros(self._columns, np.int32), offsets, numbers,
        )  # fmt: skip

    def pieces_of(self, clause: NDArray[np.int64], column: NDArray[np.int64]) -> tuple[Any, ...]:
        """For tests given by clause and column, in that order: the number of their pieces, -1 for those of one interval."""
        key = clause * self._columns + column
        pieces = np.full(len(key), -1, dtype=np.int32)
        wanted = self._owner * self._columns + self._column
        place = np.searchsorted(key, wanted)
        found = np.flatnonzero(key[np.minimum(place, len(key) - 1)] == wanted) if len(key) else place[:0]
        pieces[place[found]] = self._pieces[found]
        return (pieces, *self._parts)
