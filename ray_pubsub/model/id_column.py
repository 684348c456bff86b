"""Ids, of events and of subscriptions, as a column: int64 if all are ints, else Python objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["IdColumn", "ids_of"]


def ids_of(ids: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    """A numpy array of the ids. Mixed str and int stay apart: 1 and "1" are different ids."""
    if isinstance(ids, np.ndarray):
        return ids
    if all(type(identity) is int for identity in ids):
        try:
            return np.array(ids, dtype=np.int64)
        except OverflowError:
            pass
    column = np.empty(len(ids), dtype=object)
    column[:] = ids
    return column


class IdColumn:
    """A column that grows at its end. A reader may take from it while one writer appends: filled places never change."""

    def __init__(self) -> None:
        self._values: NDArray[Any] = np.empty(64, dtype=np.int64)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        return self._values.nbytes

    def append(self, ids: Sequence[str | int] | NDArray[Any]) -> None:
        if (
            len(ids) == 1
            and self._length < len(self._values)
            and self._values.dtype == (object if type(ids[0]) is str else np.int64)
        ):
            self._values[self._length] = ids[0]  # one more of the same: no array for it
            self._length += 1
            return
        fresh = ids_of(ids)
        needed = self._length + len(fresh)
        kind = np.dtype(object) if object in (self._values.dtype, fresh.dtype) else np.dtype(np.int64)
        if needed > len(self._values) or kind != self._values.dtype:
            grown = np.empty(max(needed, 2 * self._length), dtype=kind)
            grown[: self._length] = self._values[: self._length]
            self._values = grown
        self._values[self._length : needed] = fresh
        self._length = needed

    def take(self, places: NDArray[np.int64]) -> NDArray[Any]:
        taken: NDArray[Any] = self._values[places]
        return taken
