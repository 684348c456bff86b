"""The ids of events or subscriptions as a column: int64 if all are ints, otherwise Python objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["IdColumn", "ids_of"]


def ids_of(ids: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    """Returns a numpy array of the ids. Mixed str and int are kept apart: 1 and "1" are different ids."""
    if isinstance(ids, np.ndarray):
        return ids
    if set(map(type, ids)) <= {int}:
        try:
            return np.array(ids, dtype=np.int64)
        except OverflowError:
            pass
    column = np.empty(len(ids), dtype=object)
    column[:] = ids
    return column


class IdColumn:
    """A column that grows at its end. A reader may take from it while one writer appends: filled places never change.

    As long as the ids are consecutive ints, it only stores the first.
    """

    def __init__(self) -> None:
        self._values: NDArray[Any] = np.empty(0, dtype=np.int64)
        self._length = 0
        self._first: int | None = 0
        """The id at place 0, if the id at place i is this plus i; otherwise None, and the ids are in `_values`."""

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        return self._values.nbytes

    def append(self, ids: Sequence[str | int] | NDArray[Any]) -> None:
        if len(ids) == 1 and self._append_one(ids[0]):
            return
        fresh = ids_of(ids)
        if self._first is not None:
            if self._follow(fresh):
                self._length += len(fresh)
                return
            self._values = np.arange(self._length) + self._first
            self._first = None  # set after the values, for concurrent readers
        needed = self._length + len(fresh)
        kind = np.dtype(object) if object in (self._values.dtype, fresh.dtype) else np.dtype(np.int64)
        if needed > len(self._values) or kind != self._values.dtype:
            grown = np.empty(max(needed, 2 * self._length, 64), dtype=kind)
            grown[: self._length] = self._values[: self._length]
            self._values = grown
        self._values[self._length : needed] = fresh
        self._length = needed

    def skip(self) -> None:
        """Adds a place that has no id and is never looked up."""
        self.append((0 if self._first is None else self._first + self._length,))

    def _append_one(self, identity: Any) -> bool:
        """Appends one id without making an array. Returns False if that is not possible."""
        if self._first is not None:
            if self._length == 0 or type(identity) is not int or identity != self._first + self._length:
                return False
        elif self._length < len(self._values) and self._values.dtype == (object if type(identity) is str else np.int64):
            self._values[self._length] = identity
        else:
            return False
        self._length += 1
        return True

    def _follow(self, fresh: NDArray[Any]) -> bool:
        """Returns whether these ids continue the column; an empty column can begin with any."""
        if len(fresh) == 0:
            return True
        if fresh.dtype != np.int64:
            return False
        if self._length == 0:
            self._first = int(fresh[0])
        first = self._first
        assert first is not None
        last = first + self._length + len(fresh) - 1
        return int(fresh[0]) == first + self._length and int(fresh[-1]) == last and bool((np.diff(fresh) == 1).all())

    def take(self, places: NDArray[np.int64]) -> NDArray[Any]:
        """Returns the ids at these places. If the ids are the places themselves, that is the same array."""
        first = self._first
        if first is not None:
            return places + first if first else places
        taken: NDArray[Any] = self._values[places]
        return taken
