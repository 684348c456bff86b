"""Columns in Ray's object store: events on their way to the shards, matches on their way back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ray_pubsub.model.event_batch import EventBatch

__all__ = ["Carried", "Stored"]


@dataclass(frozen=True, slots=True)
class Stored:
    """Inside something else a reference stays one: who passes it on does not get what it stands for."""

    reference: Any
    count: int = 0
    """How many matches, if it stands for matches."""


@dataclass(slots=True, eq=False)
class Carried:
    """Many events on their way to several shards: to those on this node as they are, to others, once for all, in the object store."""

    batch: EventBatch
    stored: Stored | None = None

    def in_store(self, store: Callable[[EventBatch], Stored]) -> Stored:
        if self.stored is None:
            self.stored = store(self.batch)
        return self.stored
