"""The data and tags of subscriptions by slot, and those that removed subscriptions had when events were matched.

A slot belongs to one subscription with one metadata, so a result that keeps the slots of its matches keeps their metadata: what is freed
later is handed to the results that still exist. Without one, nothing of a removed subscription is kept.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from ray_pubsub.model.metadata import Metadata

__all__ = ["Later", "MatchedMetadata", "SlotMetadata"]


class Later:
    """What was freed by the first change after a moment, and what came after that. Results hold the one of their moment, so older ones
    are gone with the results that needed them."""

    __slots__ = ("__weakref__", "freed", "then")

    def __init__(self) -> None:
        self.freed: dict[int, Metadata] = {}
        self.then: Later | None = None

    def __iter__(self) -> Iterator[dict[int, Metadata]]:
        later: Later | None = self
        while later is not None:
            yield later.freed
            later = later.then


class SlotMetadata:
    """One writer changes it; any thread may look up."""

    def __init__(self) -> None:
        self.current: dict[int, Metadata] = {}
        """Of the subscriptions that have any."""
        self._leaving: dict[int, Metadata] = {}
        self._latest: weakref.ref[Later] | None = None
        self._watching = threading.Lock()

    def free(self, slot: int) -> None:
        """Removes the metadata of a slot; readers of the engine may still find it until `settle` is called."""
        found = self.current.get(slot)
        if found is not None:
            self._leaving[slot] = found  # before it goes, so that it is always somewhere
            del self.current[slot]

    def settle(self) -> None:
        """Hands what was freed to the results that exist. The engine must not show those slots any more."""
        if not self._leaving:
            return
        with self._watching:
            latest = None if self._latest is None else self._latest()
            if latest is not None:
                latest.freed = dict(self._leaving)
                latest.then = Later()
                self._latest = weakref.ref(latest.then)
        self._leaving.clear()

    def watch(self) -> Later:
        """Returns what must be kept to look up slots of a snapshot of the engine. It must be taken before the snapshot."""
        with self._watching:
            latest = None if self._latest is None else self._latest()
            if latest is None:
                latest = Later()
                self._latest = weakref.ref(latest)
            return latest

    def is_empty(self, since: Later) -> bool:
        """Returns whether no slot of a snapshot after `since` has metadata."""
        return not self.current and not self._leaving and not any(since)

    def found(self, slots: Iterable[int], since: Later) -> dict[int, Metadata]:
        """Returns the metadata that slots had in a snapshot after `since`."""
        wanted = set(slots)
        found: dict[int, Metadata] = {}
        for known in (self.current, self._leaving):
            for slot in wanted:
                metadata = known.get(slot)
                if metadata is not None:
                    found[slot] = metadata
        for freed in since:
            found.update((slot, freed[slot]) for slot in freed.keys() & wanted)
        return found


class MatchedMetadata:
    """Finds the metadata that matched subscriptions had when they matched."""

    def __init__(self, ids: NDArray[Any], slots: NDArray[Any], metadata: SlotMetadata, since: Later) -> None:
        self._since = since
        self._matches = None if metadata.is_empty(since) else (ids, slots, metadata)

    def __call__(self, ids: Sequence[str | int]) -> list[Metadata | None]:
        if self._matches is None:
            return [None] * len(ids)
        matched, slots, metadata = self._matches
        slot_of = dict(zip(matched.tolist(), slots.tolist(), strict=True))
        found = metadata.found((slot_of[id] for id in ids), self._since)
        return [found.get(slot_of[id]) for id in ids]
