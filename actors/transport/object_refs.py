"""Columns that several processes need: references into Ray's object store, and batches that are encoded or stored at most once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from actors.transport.event_codec import EncodedEvents, encode_events
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["SMALL_EVENTS", "SharedEvents", "StoredRef"]

SMALL_EVENTS = 64
"""Batches up to this size travel inline in a call through Ray; larger ones go through the object store."""


@dataclass(frozen=True, slots=True)
class StoredRef:
    """A reference to an object in Ray's object store. Ray replaces a reference that is an argument of a call by its object; inside this
    class the reference itself is passed on."""

    reference: Any
    count: int = 0
    """The number of matches, if the object holds matches."""


class SharedEvents:
    """A batch on its way to several shards: encoded once for those that are reached by a socket, stored once for the others."""

    __slots__ = ("_batch", "_encoded", "stored")

    def __init__(
        self, batch: EventBatch | None, encoded: EncodedEvents | None = None, stored: StoredRef | None = None
    ) -> None:
        """`batch` may be None if it is stored; it must then be loaded before it is used."""
        self._batch, self._encoded, self.stored = batch, encoded, stored

    def __reduce__(self) -> Any:
        """Pickles the batch for Ray: by reference, if it is stored."""
        return SharedEvents, (None if self.stored is not None else self.batch, None, self.stored)

    @property
    def batch(self) -> EventBatch:
        assert self._batch is not None, "not loaded"
        return self._batch

    @property
    def small(self) -> bool:
        return self._batch is not None and self._batch.size <= SMALL_EVENTS

    def load(self, fetch: Callable[[StoredRef], EventBatch]) -> None:
        """Maps a stored batch into this process."""
        if self._batch is None:
            assert self.stored is not None
            self._batch = fetch(self.stored)

    def store(self, put: Callable[[EventBatch], Any]) -> StoredRef:
        if self.stored is None:
            self.stored = StoredRef(put(self.batch))
        return self.stored

    def encoded(self) -> EncodedEvents:
        if self._encoded is None:
            self._encoded = encode_events(self.batch)
        return self._encoded
