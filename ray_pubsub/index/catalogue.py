"""Which subscriptions there are: id ↔ slot, and each slot's source. A slot is given once and never again."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.engines.contract import Source
from ray_pubsub.errors import SubscriptionIdError
from ray_pubsub.model.id_column import IdColumn
from ray_pubsub.model.values import INT64_MAX, INT64_MIN

__all__ = ["Catalogue", "check_id"]


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
        self._slot_of: dict[str | int, int] = {}
        self._column = IdColumn()
        self._sources: list[Source | None] = []

    def __len__(self) -> int:
        return len(self._slot_of)

    def __contains__(self, identity: object) -> bool:
        return type(identity) in (str, int) and identity in self._slot_of

    def __iter__(self) -> Iterator[str | int]:
        return iter(list(self._slot_of))

    def slot(self, identity: str | int) -> int | None:
        return self._slot_of.get(identity)

    def source(self, slot: int) -> Source:
        source = self._sources[slot]
        assert source is not None
        return source

    def items(self) -> list[tuple[str | int, int]]:
        return list(self._slot_of.items())

    @property
    def nbytes(self) -> int:
        objects = len(self._slot_of) * 2 * sys.getsizeof(1 << 40)  # an id and a slot
        held = sys.getsizeof(self._slot_of) + sys.getsizeof(self._sources) + objects + self._column.nbytes
        shared = {id(source): source for source in self._sources}  # a table of intervals is the source of many slots
        return held + sum(int(getattr(source, "nbytes", 0)) for source in shared.values())

    @property
    def next_slot(self) -> int:
        return len(self._column)

    def add(self, ids: Sequence[str | int], sources: Sequence[Source]) -> tuple[list[int], list[int], list[Source]]:
        """Slots freed by replacement, slots given and their sources; of equal ids in one call the last one wins."""
        first = self.next_slot
        given = dict(zip(ids, range(first, first + len(ids)), strict=True))
        if len(given) < len(ids):  # a repeated id stands where it was given last
            given = dict(sorted(given.items(), key=lambda item: item[1]))
        removed = []
        for identity in self._slot_of.keys() & given.keys():
            slot = self._slot_of.pop(identity)  # popped, so that a replaced id moves to the end of the order
            self._sources[slot] = None
            removed.append(slot)
        self._column.append(ids)
        self._sources.extend(sources)
        self._slot_of.update(given)
        added = list(given.values())
        if len(given) < len(ids):
            for slot in set(range(first, first + len(ids))).difference(added):
                self._sources[slot] = None
            return removed, added, [self.source(slot) for slot in added]
        return removed, added, list(sources)

    def remove(self, identity: str | int) -> int | None:
        slot = self._slot_of.pop(identity, None)
        if slot is not None:
            self._sources[slot] = None
        return slot

    def ids(self, slots: NDArray[np.int64]) -> NDArray[Any]:
        """The ids of slots, as a column."""
        return self._column.take(slots)
