"""What a reader sees of a live index: a version, and everything that was there at that version."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Hits, Source
from ray_pubsub.engines.gathering import gathered
from ray_pubsub.index.blocks import Blocks
from ray_pubsub.index.tail import TailView
from ray_pubsub.kernels.hits import RESIDUAL, keep_visible
from ray_pubsub.language.truth import truth
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["ALIVE", "Scratch", "Snapshot"]

ALIVE = np.iinfo(np.int64).max


class Part(Protocol):
    """Clauses: a block or a tail."""

    owners: NDArray[Any]

    def __len__(self) -> int: ...

    def table(self, chosen: NDArray[np.int64] | None = None) -> ClauseTable: ...


class Snapshot(NamedTuple):
    """Immutable but for `died`, `flags` and the tail's tables, which only change where this version does not look."""

    version: int
    blocks: Blocks
    sealed: tuple[TailView, ...]
    """Tails that are full and wait to become blocks."""
    tail: TailView
    died: NDArray[np.int64]
    """Per slot the version that removed it."""
    flags: NDArray[np.uint8]
    """Per slot: kernels/hits.py. REMOVED is set after `died`, and says to look there."""
    filtered: bool
    """Whether any slot was removed, has several clauses, or is residual: else matches need no second look."""
    residual: dict[int, Source]
    """The sources of the slots whose clauses only find candidates. Replaced, never changed."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """All that hold clauses."""
        return (*self.blocks, *self.sealed, self.tail)

    def match(self, events: EventBatch, vocabulary: Vocabulary, scratch: Scratch) -> Hits:
        parts = self.blocks.match(events)
        parts += [tail.match(events, vocabulary) for tail in (*self.sealed, self.tail) if tail.clauses]
        hits = gathered(parts, events.size)
        if not self.filtered:
            return hits
        seen, epoch = scratch.seen(len(self.died), events.size)
        residual = keep_visible(hits.offsets, hits.slots, self.died, self.version, self.flags, seen, epoch)
        hits = Hits(hits.offsets, hits.slots[: hits.offsets[-1]])
        return self._decided(hits, events) if residual else hits

    def _decided(self, hits: Hits, events: EventBatch) -> Hits:
        """Asks the expression of every candidate whose clauses do not decide."""
        rows = events.rows()
        owner = np.repeat(np.arange(events.size), np.diff(hits.offsets))
        keep = np.ones(len(hits.slots), dtype=bool)
        for place in np.flatnonzero(self.flags[hits.slots] & RESIDUAL).tolist():
            slot = int(hits.slots[place])
            keep[place] = truth(self.residual[slot].tree_at(slot), rows[owner[place]]) is True
        counts = np.bincount(owner[keep], minlength=events.size)
        return Hits(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), hits.slots[keep])


class Scratch(threading.local):
    """Per thread: for every slot the last event that had it, numbered over all batches so that it never needs clearing."""

    def __init__(self) -> None:
        self._seen: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._epoch = 1

    def seen(self, slots: int, events: int) -> tuple[NDArray[np.int64], int]:
        if len(self._seen) < slots:
            self._seen, self._epoch = np.zeros(slots, dtype=np.int64), 1
        epoch = self._epoch
        self._epoch += events
        return self._seen, epoch
