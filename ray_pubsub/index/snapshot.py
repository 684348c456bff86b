"""What a reader sees of a live index: a version, and everything that was there at that version."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Hits, Source
from ray_pubsub.engines.dense_run import no_run
from ray_pubsub.engines.dense_segment import dense_buffers
from ray_pubsub.engines.gathering import gathered
from ray_pubsub.index.blocks import Blocks
from ray_pubsub.index.tail import TailView, cells_of, tail_scratch
from ray_pubsub.kernels.hits import RESIDUAL, keep_visible
from ray_pubsub.kernels.one_event import match_one_event
from ray_pubsub.language.truth import truth
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["ALIVE", "Scratch", "Snapshot"]

ALIVE = np.iinfo(np.int64).max
NOTHING = np.empty(0, dtype=np.int64)


class Part(Protocol):
    """Clauses: a block or a tail."""

    owners: NDArray[Any]

    def __len__(self) -> int: ...

    def table(self, chosen: NDArray[np.int64] | None = None) -> ClauseTable: ...


class Snapshot(NamedTuple):
    """Immutable but for `died`, `flags`, `marks` and the tail's tables, which only change where this version does not look."""

    version: int
    blocks: Blocks
    sealed: tuple[TailView, ...]
    """Tails that are full and wait to become blocks."""
    tail: TailView
    died: NDArray[np.int64]
    """Per slot the version that removed it."""
    flags: NDArray[np.uint8]
    """Per slot: kernels/hits.py. REMOVED is set after `died`, and says to look there."""
    marks: NDArray[np.uint8]
    """Two bits per slot, made of the above (index/slot_marks.py)."""
    filtered: bool
    """Whether any slot was removed, has several clauses, or is residual: else matches need no second look."""
    residual: dict[int, Source]
    """The sources of the slots whose clauses only find candidates. Replaced, never changed."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """All that hold clauses."""
        return (*self.blocks, *self.sealed, self.tail)

    def match(self, events: EventBatch, vocabulary: Vocabulary, scratch: Scratch) -> Hits:
        if events.size == 1 and (self.filtered or self.tail.clauses):
            found = self._match_one(events, vocabulary, scratch)
            if found is not None:
                return found
        parts = self.blocks.match(events)
        parts += [tail.match(events, vocabulary) for tail in (*self.sealed, self.tail) if tail.clauses]
        hits = gathered(parts, events.size)
        if not self.filtered:
            return hits
        mine = scratch.mine
        first = mine.turns(len(self.died), events.size)
        residual = keep_visible(
            hits.offsets, hits.slots, self.died, self.version, self.flags, self.marks, mine.seen, first
        )
        hits = Hits(hits.offsets, hits.slots[: hits.offsets[-1]])
        return self._decided(hits, events) if residual else hits

    def _match_one(self, events: EventBatch, vocabulary: Vocabulary, scratch: Scratch) -> Hits | None:
        """Of one event, in one call of a kernel but for blocks that are not dense; None if it cannot be."""
        run, blocks = self.blocks.parts
        tail, sealed = self.tail, NOTHING
        dense = no_run(events) if run is None else run.arguments(events)
        if dense is None or tail.opaque:
            return None
        if self.sealed:
            if any(each.opaque for each in self.sealed):
                return None
            sealed = np.array([number for each in self.sealed for number in (each.clauses, *each.addresses)])
        others = np.concatenate([block.match(events).slots for block in blocks]) if blocks else NOTHING
        cells = cells_of(events, vocabulary)
        mine = scratch.mine
        mine.make_room(1 if run is None else run.lines, cells.attributes, len(self.died))
        mine.turn += 1
        slots, residual = match_one_event(
            *dense, *mine.dense, others, tail.clauses, *tail.addresses, sealed, *cells[2:], *mine.values,
            self.filtered, self.died, self.version, self.flags, self.marks, mine.seen, mine.turn,
        )  # fmt: skip
        hits = Hits(np.array([0, len(slots)]), slots)
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
    """Per thread: where its matches work."""

    def __init__(self) -> None:
        self.mine = Workplace()


class Workplace:
    """Of one thread: plain attributes, which are sooner at hand than a thread's own."""

    __slots__ = ("_attributes", "_lines", "dense", "seen", "turn", "values")

    def __init__(self) -> None:
        self.seen: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """For every slot the last event that had it, by its turn; they are numbered over all batches, so that it never needs clearing."""
        self.turn = 1
        self._lines = self._attributes = 0
        self.dense: tuple[NDArray[Any], ...] = ()
        self.values: tuple[NDArray[Any], ...] = ()

    def make_room(self, lines: int, attributes: int, slots: int) -> None:
        if lines > self._lines:
            self._lines, self.dense = lines, dense_buffers(lines)
        if attributes >= self._attributes:
            self._attributes = 2 * attributes + 64
            self.values = tail_scratch(self._attributes)
        if slots > len(self.seen):
            self.seen, self.turn = np.zeros(slots, dtype=np.int64), 1

    def turns(self, slots: int, events: int) -> int:
        """The first of so many turns."""
        self.make_room(0, 0, slots)
        first = self.turn + 1
        self.turn += events
        return first
