"""Which subscriptions there are: id ↔ slot, and each slot's source. A slot is given once and never again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.engines.contract import Source
from ray_pubsub.errors import SubscriptionIdError
from ray_pubsub.index.slot_map import SlotMap
from ray_pubsub.model.id_column import IdColumn
from ray_pubsub.model.values import INT64_MAX, INT64_MIN

__all__ = ["Catalogue", "all_good", "check_id", "check_ids"]


def all_good(ids: Sequence[Any]) -> bool:
    """Whether all are ids, as can be seen at a glance: ints, or texts in ASCII. Others may be too."""
    kinds = set(map(type, ids))
    if kinds == {int}:
        return bool(min(ids) >= INT64_MIN and max(ids) <= INT64_MAX)
    return kinds == {str} and all(map(str.isascii, ids))


def check_ids(ids: Sequence[Any]) -> None:
    """`check_id` for each."""
    if not all_good(ids):
        for identity in ids:
            check_id(identity)


def check_id(identity: Any) -> None:
    """Raises SubscriptionIdError unless it is a str or an int of 64 bits."""
    if type(identity) is int:
        if not INT64_MIN <= identity <= INT64_MAX:
            raise SubscriptionIdError(identity)
    elif type(identity) is not str:
        raise SubscriptionIdError(identity)
    elif not identity.isascii():
        try:
            identity.encode()
        except UnicodeEncodeError:
            raise SubscriptionIdError(identity, "an id must be valid Unicode") from None


class Catalogue:
    """Ids in the order they were added. Slots only grow, so a reader may resolve slots while a writer goes on."""

    def __init__(self) -> None:
        self._slots = SlotMap()
        self._column = IdColumn()
        self._sources: list[Source | None] = []

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, identity: object) -> bool:
        if type(identity) is int and not INT64_MIN <= identity <= INT64_MAX:
            return False
        return type(identity) in (str, int) and self._slots.get(identity) >= 0  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[str | int]:
        return iter(self._column.take(self._slots.slots()).tolist())

    def slot(self, identity: str | int) -> int | None:
        slot = self._slots.get(identity)
        return slot if slot >= 0 else None

    def source(self, slot: int) -> Source:
        source = self._sources[slot]
        assert source is not None
        return source

    def listed(self) -> tuple[NDArray[np.int64], NDArray[Any], list[Any]]:
        """Slots, ids and sources of all, in the order they were added; changes later on do not show in them."""
        slots = self._slots.slots()
        sources = self._sources
        all_there = len(slots) == len(sources)
        ids = self._column.take(slots)
        return slots, ids, sources.copy() if all_there else [sources[slot] for slot in slots.tolist()]

    def skip_slot(self) -> None:
        """The next slot is nobody's."""
        self._column.skip()
        self._sources.append(None)

    @property
    def nbytes(self) -> int:
        held = self._slots.nbytes + sys.getsizeof(self._sources) + self._column.nbytes
        shared = {id(source): source for source in self._sources}  # a table of intervals is the source of many slots
        return held + sum(int(getattr(source, "nbytes", 0)) for source in shared.values())

    @property
    def next_slot(self) -> int:
        return len(self._column)

    def add(self, identity: str | int, source: Source) -> tuple[int, int]:
        """Its slot, and the slot that a subscription of the same id had, or -1."""
        slot = len(self._column)
        self._column.append((identity,))
        self._sources.append(source)
        replaced = self._slots.put(identity, slot)
        if replaced >= 0:
            self._sources[replaced] = None
        return slot, replaced

    def add_many(
        self, ids: Sequence[str | int] | NDArray[Any], sources: Sequence[Source]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Slots freed by replacement and slots given; of equal ids in one call the last one wins."""
        first = self.next_slot
        self._column.append(ids)
        self._sources.extend(sources)
        lost = self._slots.put_many(ids, first)
        for slot in lost.tolist():
            self._sources[slot] = None
        added = np.arange(first, self.next_slot)
        repeated = lost[lost >= first]
        if len(repeated):
            added = np.setdiff1d(added, repeated, assume_unique=True)
        return lost[lost < first], added

    def set_source(self, slots: NDArray[np.int64], source: Source) -> None:
        """Another source for slots that have one: where a subscription can be read from has changed."""
        if len(slots) and slots[-1] - slots[0] == len(slots) - 1:
            self._sources[int(slots[0]) : int(slots[-1]) + 1] = [source] * len(slots)
            return
        for slot in slots.tolist():
            self._sources[slot] = source

    def remove(self, identity: str | int) -> int:
        """The slot that is free now, or -1."""
        slot = self._slots.pop(identity)
        if slot >= 0:
            self._sources[slot] = None
        return slot

    def remove_many(self, ids: Sequence[str | int]) -> NDArray[np.int64]:
        """The slots that are free now: of those ids that were there."""
        slots = self._slots.pop_many(ids)
        for slot in slots.tolist():
            self._sources[slot] = None
        return slots

    def compacted(self, moved: Callable[[Source, int], Source]) -> tuple[Catalogue, NDArray[np.int64]]:
        """The same subscriptions in slots without gaps, and the slots they had, ascending. `moved`: a source to be asked with the
        new slot instead of the old."""
        slots = self._slots.slots()
        fresh = Catalogue()
        fresh.add_many(self._column.take(slots), [moved(self.source(slot), slot) for slot in slots.tolist()])
        return fresh, slots

    def ids(self, slots: NDArray[np.int64]) -> NDArray[Any]:
        """The ids of slots, as a column."""
        return self._column.take(slots)
