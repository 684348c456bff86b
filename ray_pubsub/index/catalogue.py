"""The catalogue of subscriptions: id ↔ slot, and each slot's source and metadata. A slot is given once and never again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.engines.contract import Source
from ray_pubsub.index.slot_map import SlotMap
from ray_pubsub.model.id_column import IdColumn
from ray_pubsub.model.metadata import Metadata
from ray_pubsub.model.slot_metadata import SlotMetadata
from ray_pubsub.model.values import INT64_MAX, INT64_MIN

__all__ = ["Catalogue"]


class Catalogue:
    """The ids in the order in which they were added. Slots only grow, so a reader may resolve slots while a writer goes on."""

    def __init__(self) -> None:
        self._slots = SlotMap()
        self._column = IdColumn()
        self._sources: list[Source | None] = []
        self.carried = SlotMetadata()

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
        """Returns slots, ids and sources of all subscriptions, in the order in which they were added. Later changes do not affect the
        result."""
        slots = self._slots.slots()
        sources = self._sources
        all_there = len(slots) == len(sources)
        ids = self._column.take(slots)
        return slots, ids, sources.copy() if all_there else [sources[slot] for slot in slots.tolist()]

    def skip_slot(self) -> None:
        """Leaves the next slot unused."""
        self._column.skip()
        self._sources.append(None)

    @property
    def nbytes(self) -> int:
        held = self._slots.nbytes + sys.getsizeof(self._sources) + self._column.nbytes
        shared = {id(source): source for source in self._sources}  # a table of intervals is the source of many slots
        carried = self.carried.current
        held += sys.getsizeof(carried) + sum(sys.getsizeof(each.text) for each in carried.values())
        return held + sum(int(getattr(source, "nbytes", 0)) for source in shared.values())

    @property
    def next_slot(self) -> int:
        return len(self._column)

    def add(self, identity: str | int, source: Source) -> tuple[int, int]:
        """Adds a subscription. Returns its slot, and the slot that a subscription of the same id had, or -1."""
        slot = len(self._column)
        self._column.append((identity,))
        self._sources.append(source)
        replaced = self._slots.put(identity, slot)
        if replaced >= 0:
            self._forget(replaced)
        return slot, replaced

    def add_many(
        self, ids: Sequence[str | int] | NDArray[Any], sources: Sequence[Source]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Adds many subscriptions. Returns the slots freed by replacement and the slots given; of equal ids in one call the last one
        wins."""
        first = self.next_slot
        self._column.append(ids)
        self._sources.extend(sources)
        lost = self._slots.put_many(ids, first)
        for slot in lost.tolist():
            self._forget(slot)
        added = np.arange(first, self.next_slot)
        repeated = lost[lost >= first]
        if len(repeated):
            added = np.setdiff1d(added, repeated, assume_unique=True)
        return lost[lost < first], added

    def set_source(self, slots: NDArray[np.int64], source: Source) -> None:
        """Sets another source for slots, when the place has changed from which subscriptions can be read."""
        if len(slots) and slots[-1] - slots[0] == len(slots) - 1:
            self._sources[int(slots[0]) : int(slots[-1]) + 1] = [source] * len(slots)
            return
        for slot in slots.tolist():
            self._sources[slot] = source

    def remove(self, identity: str | int) -> int:
        """Removes a subscription. Returns the slot that is free now, or -1."""
        slot = self._slots.pop(identity)
        if slot >= 0:
            self._forget(slot)
        return slot

    def remove_many(self, ids: Sequence[str | int]) -> NDArray[np.int64]:
        """Removes many subscriptions. Returns the freed slots of those ids that existed."""
        slots = self._slots.pop_many(ids)
        for slot in slots.tolist():
            self._forget(slot)
        return slots

    def describe(self, slot: int, metadata: Metadata | None) -> None:
        """Sets the metadata of a subscription."""
        if metadata is not None:
            self.carried.current[slot] = metadata

    def describe_run(self, first: int, added: NDArray[np.int64], metadata: Sequence[Metadata | None] | None) -> None:
        """Does the same for the slots that `add_many` gave; entry i is that of the slot first + i."""
        if metadata is not None:
            for slot in added.tolist():
                self.describe(slot, metadata[slot - first])

    def describe_by_id(self, carried: Iterable[tuple[str | int, Metadata]]) -> None:
        """Does the same for existing subscriptions, by their ids."""
        for identity, metadata in carried:
            self.describe(self._slots.get(identity), metadata)

    def metadata(self, identity: str | int) -> Metadata | None:
        """Returns the metadata of a subscription; None if it has none or does not exist."""
        return self.carried.current.get(self._slots.get(identity))

    def tagged(self, tag: str) -> list[str | int]:
        """Returns the ids of the subscriptions that have a tag, in the order in which they were added. Looks at every subscription with
        metadata."""
        slots = sorted(slot for slot, metadata in self.carried.current.items() if tag in metadata.tags)
        found: list[str | int] = self._column.take(np.array(slots, np.int64)).tolist()
        return found

    def described(self, slots: NDArray[np.int64]) -> list[tuple[int, Metadata]]:
        """Returns the places among these slots that have metadata, with the metadata."""
        carried = self.carried.current
        if not carried:
            return []
        pairs = ((place, carried.get(slot)) for place, slot in enumerate(slots.tolist()))
        return [(place, metadata) for place, metadata in pairs if metadata is not None]

    def _forget(self, slot: int) -> None:
        self._sources[slot] = None
        self.carried.free(slot)

    def compacted(self, moved: Callable[[Source, int], Source]) -> tuple[Catalogue, NDArray[np.int64]]:
        """Returns the same subscriptions in slots without gaps, and the slots they had, in ascending order. `moved` returns a source
        that is asked with the new slot in place of the old."""
        slots = self._slots.slots()
        fresh = Catalogue()
        fresh.add_many(self._column.take(slots), [moved(self.source(slot), slot) for slot in slots.tolist()])
        fresh.carried.current = dict(self.described(slots))
        return fresh, slots

    def ids(self, slots: NDArray[np.int64]) -> NDArray[Any]:
        """Returns the ids of slots, as a column."""
        return self._column.take(slots)
