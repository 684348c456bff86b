"""Two bits per slot for readers: the slot needs no check, it has a flag, or it was removed long ago.

A slot that was removed a moment ago has a flag, and its version says for which readers it is gone. When there are many such slots, they are
marked as gone in a copy of the marks, which only snapshots of later versions have. Their readers need not look at versions, which are
scattered in memory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.index.hits import GONE, LOOK, set_marks

__all__ = ["TombstoneBits"]

FEWEST_SETTLED, SLOTS_PER_SETTLED = 1024, 512
"""This many removals are settled together, because a copy takes time in proportion to the slots."""
LOOKS = tuple(LOOK << 2 * place for place in range(4))
"""The mark for each of the four slots of a byte."""


class TombstoneBits:
    """The writer's side of the marks. One thread at a time."""

    def __init__(self) -> None:
        self._removed: list[int] = []
        """The slots removed since the last copy."""
        self._enough = FEWEST_SETTLED

    def of(self, flags: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Returns the marks for slots with these flags."""
        marks = self.with_room(np.zeros(0, np.uint8), len(flags))
        set_marks(marks, np.flatnonzero(flags), LOOK)
        return marks

    def with_room(self, marks: NDArray[np.uint8], slots: int) -> NDArray[np.uint8]:
        self._enough = max(FEWEST_SETTLED, slots // SLOTS_PER_SETTLED)
        return np.concatenate([marks, np.zeros(-(-slots // 4) - len(marks), np.uint8)])

    def flagged(self, marks: NDArray[np.uint8], slot: int) -> None:
        place = slot >> 2
        marks[place] = marks.item(place) | LOOKS[slot & 3]

    def remove(self, marks: NDArray[np.uint8], slot: int) -> NDArray[np.uint8]:
        """Returns the marks for snapshots from the removal on. `flags` must say already that the slot is removed."""
        removed = self._removed
        removed.append(slot)
        if len(removed) < self._enough:
            self.flagged(marks, slot)
            return marks
        return self._settled(marks, np.array(removed))

    def remove_many(self, marks: NDArray[np.uint8], slots: NDArray[np.int64]) -> NDArray[np.uint8]:
        if len(self._removed) + len(slots) < self._enough:
            self._removed += slots.tolist()
            set_marks(marks, slots, LOOK)
            return marks
        return self._settled(marks, np.concatenate([np.array(self._removed, dtype=np.int64), slots]))

    def _settled(self, marks: NDArray[np.uint8], slots: NDArray[np.int64]) -> NDArray[np.uint8]:
        self._removed.clear()
        marks = marks.copy()
        set_marks(marks, slots, GONE)
        return marks
