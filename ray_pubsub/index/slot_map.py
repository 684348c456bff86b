"""Maps ids to slots. Ints are in a compact hash table (kernels/index/id_table.py); strings, which are objects anyway, in a dict."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.index.id_table import (
    EMPTY,
    find,
    insert,
    insert_many,
    living_slots,
    refill,
    take_out,
    take_out_many,
)
from ray_pubsub.kernels.readiness import are_ready

__all__ = ["SlotMap"]

FULLEST = 0.7
FEWEST_PLACES = 64
FEW = 1000
EMPTIEST = 8
"""A table with fewer than one of this many places in use is replaced by a smaller one."""
MOST_BYTES = 500
"""The same for a dict, which does not say how many places it has: 40 to 110 bytes for each text is usual."""


class SlotMap:
    """The slots of ids, for one writer at a time; a reader may look up meanwhile."""

    def __init__(self) -> None:
        self._ints = _empty_table(FEWEST_PLACES)
        self._int_count = 0
        self._most = int(FEWEST_PLACES * FULLEST) - 1
        """The number of ints that fit before a larger table is built."""
        self._texts: dict[Any, int] = {}
        self._early = not are_ready()
        """While kernels are being compiled, the ints of a small index are in the dict too."""

    def __len__(self) -> int:
        return self._int_count + len(self._texts)

    @property
    def nbytes(self) -> int:
        return self._ints.nbytes + sys.getsizeof(self._texts) + len(self._texts) * sys.getsizeof(1 << 40)

    def get(self, identity: str | int) -> int:
        """Returns the slot of an id, or -1 if there is none."""
        if type(identity) is str or self._early:
            return self._texts.get(identity, EMPTY)
        slot: int = find(self._ints, identity)
        return slot

    def put(self, identity: str | int, slot: int) -> int:
        """Sets the slot of an id. Returns the slot it had, or -1."""
        if type(identity) is str or self._is_early(1):
            old = self._texts.pop(identity, EMPTY)
            self._texts[identity] = slot
            return old
        if self._int_count >= self._most:
            self._make_room(1)
        replaced: int = insert(self._ints, identity, slot)
        self._int_count += replaced == EMPTY
        return replaced

    def put_many(self, ids: Sequence[str | int] | NDArray[Any], first_slot: int) -> NDArray[np.int64]:
        """Gives ids the slots from `first_slot` on; of equal ids the last wins. Returns the slots that lost their id: those of ids that
        had one before, and of ids repeated here."""
        early = self._is_early(len(ids))
        ints = None if early else _as_ints(ids)
        if ints is not None:
            return self._put_ints(ints, np.arange(first_slot, first_slot + len(ids)))
        texts, numbers, slots, lost = self._texts, [], [], []
        for slot, identity in enumerate(ids, first_slot):
            if type(identity) is str or early:
                old = texts.get(identity)
                if old is not None:
                    lost.append(old)
                texts[identity] = slot
            else:
                numbers.append(identity)
                slots.append(slot)
        replaced = np.array(lost, dtype=np.int64)
        if numbers:
            replaced = np.concatenate(
                [replaced, self._put_ints(np.array(numbers, dtype=np.int64), np.array(slots, dtype=np.int64))]
            )
        return replaced

    def put_pairs(self, ids: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Gives ints these slots; of equal ids the last wins."""
        if self._is_early(len(ids)):
            self._texts.update(zip(ids.tolist(), slots.tolist(), strict=True))
        else:
            self._put_ints(ids, slots)

    def pop(self, identity: str | int) -> int:
        """Removes an id. Returns its slot, or -1."""
        if type(identity) is str or self._is_early(0):
            found = self._texts.pop(identity, EMPTY)
            self._shrink_texts()
            return found
        slot: int = take_out(self._ints, identity)
        self._int_count -= slot != EMPTY
        self._shrink_ints()
        return slot

    def pop_many(self, ids: Sequence[str | int]) -> NDArray[np.int64]:
        """Removes ids. Returns the slots of those that existed."""
        ints = None if self._is_early(0) else _as_ints(ids)
        if ints is None:
            return np.array([slot for slot in map(self.pop, ids) if slot != EMPTY], dtype=np.int64)
        slots = np.empty(len(ints), dtype=np.int64)
        take_out_many(self._ints, ints, slots)
        there: NDArray[np.int64] = slots[slots != EMPTY]
        self._int_count -= len(there)
        self._shrink_ints()
        return there

    def slots(self) -> NDArray[np.int64]:
        """Returns all slots in ascending order, which is the order in which their ids were added."""
        found = np.empty(self._int_count + len(self._texts), dtype=np.int64)
        count = living_slots(self._ints, found) if self._int_count else 0
        found[count:] = np.fromiter(self._texts.values(), dtype=np.int64, count=len(self._texts))
        found.sort()
        return found

    def _is_early(self, more: int) -> bool:
        """Returns whether ints still go to the dict. When they no longer do, those in the dict move to the table."""
        if self._early and (are_ready() or len(self._texts) + more > FEW):
            moved = {identity: slot for identity, slot in self._texts.items() if type(identity) is not str}
            self._texts = {identity: slot for identity, slot in self._texts.items() if type(identity) is str}
            self._early = False
            self._put_ints(np.array(list(moved), dtype=np.int64), np.array(list(moved.values()), dtype=np.int64))
        return self._early

    def _put_ints(self, keys: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.int64]:
        self._make_room(len(keys))
        replaced = np.empty(len(keys), dtype=np.int64)
        count = insert_many(self._ints, keys, slots, replaced)
        self._int_count += len(keys) - count
        return replaced[:count]

    def _make_room(self, more: int) -> None:
        needed = int((self._int_count + more) / FULLEST) + 1
        if needed <= len(self._ints):
            return
        self._resize(needed if more > self._int_count else max(needed, 2 * len(self._ints)))

    def _shrink_ints(self) -> None:
        if len(self._ints) > EMPTIEST * max(self._int_count, FEWEST_PLACES):
            self._resize(max(2 * self._int_count, FEWEST_PLACES))

    def _shrink_texts(self) -> None:
        if sys.getsizeof(self._texts) > MOST_BYTES * (len(self._texts) + FEWEST_PLACES):
            self._texts = dict(self._texts.items())

    def _resize(self, places: int) -> None:
        table = _empty_table(places)
        refill(self._ints, table)
        self._ints = table
        self._most = int(places * FULLEST) - 1


def _as_ints(ids: Sequence[str | int] | NDArray[Any]) -> NDArray[np.int64] | None:
    """Returns the ids as int64 if all are ints, otherwise None."""
    if isinstance(ids, np.ndarray):
        return ids if ids.dtype == np.int64 else None
    return np.array(ids, dtype=np.int64) if set(map(type, ids)) == {int} else None


def _empty_table(places: int) -> NDArray[np.int64]:
    table = np.empty((places, 2), dtype=np.int64)
    table[:, 1] = EMPTY
    return table
