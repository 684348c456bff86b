"""A reader's view of a segmented index: a version, and everything that existed at that version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Hits, Source
from ray_pubsub.engines.dense.segment import dense_buffers
from ray_pubsub.engines.merge_hits import merge_hits
from ray_pubsub.index.blocks import Blocks
from ray_pubsub.index.tail import NO_CELLS, TailView, cells_of, tail_values
from ray_pubsub.kernels.index.hits import RESIDUAL, Visibility, keep_visible
from ray_pubsub.kernels.index.match_single import match_single, match_tails
from ray_pubsub.language.terms import NOW
from ray_pubsub.language.truth import truth
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.select_events import LazyEvent
from ray_pubsub.model.single_event import SingleEvent, single_of
from ray_pubsub.model.values import Kind, Value
from ray_pubsub.preemption import offer
from ray_pubsub.workspace import workspace

if TYPE_CHECKING:
    from ray_pubsub.index.segmented_index import SegmentedIndex
    from ray_pubsub.model.attribute_tree import AttributeTree

__all__ = ["ALIVE", "IndexView", "Slots", "Snapshot"]

ALIVE = np.iinfo(np.int64).max
NOTHING = np.empty(0, dtype=np.int64)
NO_VERDICT = np.empty(0, dtype=np.bool_)
NO_TAILS = np.empty((0, 4), dtype=np.int64)


class Part(Protocol):
    """A part that holds clauses: a block or a tail."""

    owners: NDArray[Any]

    def __len__(self) -> int: ...

    def table(self, chosen: NDArray[np.int64] | None = None) -> ClauseTable: ...


class Slots(NamedTuple):
    """The state of each slot."""

    died: NDArray[np.int64]
    """The version that removed the slot."""
    flags: NDArray[np.uint8]
    """Flags (kernels/index/hits.py). REMOVED is set after `died`, and means that `died` must be checked."""
    marks: NDArray[np.uint8]
    """Two bits for each slot, derived from the above (index/tombstone_bits.py)."""
    addresses: NDArray[np.int64]
    """The addresses of the above, for kernels/index/match_single.py."""

    @classmethod
    def of(cls, died: NDArray[np.int64], flags: NDArray[np.uint8], marks: NDArray[np.uint8]) -> Slots:
        addresses = np.array([len(died), died.ctypes.data, flags.ctypes.data, marks.ctypes.data])
        return cls(died, flags, marks, addresses)

    def with_marks(self, marks: NDArray[np.uint8]) -> Slots:
        return self if marks is self.marks else Slots.of(self.died, self.flags, marks)


class Snapshot(NamedTuple):
    """A version of the index. Immutable, except for the arrays of `slots` and the tail's tables, which only change where this version
    does not look."""

    version: int
    blocks: Blocks
    sealed: tuple[TailView, ...]
    """The tails that are full and wait to become blocks."""
    tail: TailView
    slots: Slots
    filtered: bool
    """Whether any slot was removed, has several clauses, or is residual. If not, matches need no second check."""
    residual: dict[int, Source]
    """The sources of the slots whose clauses only find candidates. The dict is replaced, never changed."""

    @property
    def died(self) -> NDArray[np.int64]:
        return self.slots.died

    @property
    def flags(self) -> NDArray[np.uint8]:
        return self.slots.flags

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts that hold clauses."""
        return (*self.blocks, *self.sealed, self.tail)

    def match(self, events: EventBatch, vocabulary: Vocabulary) -> Hits:
        if events.size == 1 and (single := single_of(events)) is not None:
            slots = self.match_single(single, vocabulary)
            return Hits(np.array([0, len(slots)]), slots)
        return self._match_batch(events, vocabulary)

    def match_single(self, event: SingleEvent, vocabulary: Vocabulary) -> NDArray[np.int64]:
        """Returns the slots that one event matches."""
        if len(self.blocks) == 1 and not (self.filtered or self.tail.clauses or self.sealed):
            block = self.blocks[0]
            if not block.joint:
                return block.match_single(event)
        slots = self._match_jointly(event, vocabulary)
        return self._match_batch(event, vocabulary).slots if slots is None else slots

    def _match_batch(self, events: EventBatch, vocabulary: Vocabulary) -> Hits:
        parts = []
        for block in self.blocks:
            offer()
            parts.append(block.match(events))
        parts += [tail.match(events, vocabulary) for tail in (*self.sealed, self.tail) if tail.clauses]
        hits = merge_hits(parts, events.size)
        if not self.filtered:
            return hits
        died, flags, marks, _ = self.slots
        scratch = _scratch()
        scratch.make_room(0, 0, len(died))
        known = Visibility(died, flags, marks, self.version, scratch.seen)
        residual = keep_visible(hits.offsets, hits.slots, known, scratch.turns(events.size))
        hits = Hits(hits.offsets, hits.slots[: hits.offsets[-1]])
        return self._decided(hits, events) if residual else hits

    def _match_jointly(self, events: SingleEvent, vocabulary: Vocabulary) -> NDArray[np.int64] | None:
        """Returns the matches of one event, found in one call of a kernel except for segments that are not dense; None if there is
        nothing to join in the call, or if a pattern of a segment or of a sealed tail must be evaluated."""
        group, others = self.blocks.parts
        tail, sealed = self.tail, NO_TAILS
        if not (tail.clauses or self.sealed or self.filtered):
            return None if group is None or others else group.match(events)
        dense = None if group is None else group.arguments(events)
        if group is not None and dense is None:
            return None
        attributes, cells, verdict = 0, NO_CELLS, NO_VERDICT
        if tail.clauses or self.sealed:
            found = cells_of(events, vocabulary)
            attributes, cells = found.attributes, found[2:]
            if self.sealed:
                if any(each.opaque for each in self.sealed):
                    return None
                sealed = np.array([(each.clauses, *each.addresses) for each in self.sealed])
            if tail.opaque:
                verdict = tail.verdicts(events, vocabulary)[0]
        matched = [block.match_single(events) for block in others]
        if group is not None and dense is not None:
            known = group.cached(events, dense)
            if known is not None:
                dense = None
                matched.append(known)
        elsewhere = np.concatenate(matched) if matched else NOTHING
        scratch = _scratch()
        scratch.make_room(0 if group is None else group.lines, attributes, len(self.slots.died))
        scratch.turn += 1
        rest = (
            elsewhere, (tail.clauses, *tail.addresses), sealed, (*cells, verdict), scratch.addresses, self.slots.addresses,
            (self.version, scratch.turn, self.filtered),
        )  # fmt: skip
        slots, residual = match_tails(*rest) if dense is None else match_single(dense, *rest)
        return self._decided(Hits(np.array([0, len(slots)]), slots), events).slots if residual else slots

    def _decided(self, hits: Hits, events: EventBatch) -> Hits:
        """Evaluates the expression of every candidate whose clauses do not decide."""
        lanes, now = LazyEvent.lanes_of(events), {NOW: Value(Kind.TIMESTAMP, events.moment)}
        asked: dict[int, LazyEvent] = {}
        owner = np.repeat(np.arange(events.size), np.diff(hits.offsets))
        keep = np.ones(len(hits.slots), dtype=bool)
        for place in np.flatnonzero(self.flags[hits.slots] & RESIDUAL).tolist():
            slot, row = int(hits.slots[place]), int(owner[place])
            event = asked.get(row)
            if event is None:
                event = asked[row] = LazyEvent(events, lanes, row, now)
            keep[place] = truth(self.residual[slot].tree_at(slot), event) is True
        counts = np.bincount(owner[keep], minlength=events.size)
        return Hits(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), hits.slots[keep])


class IndexView(NamedTuple):
    """An index at one version. The attributes are read after the snapshot is taken, so they include everything it tests."""

    segmented: SegmentedIndex
    snapshot: Snapshot

    @property
    def attributes(self) -> AttributeTree:
        return self.segmented.vocabulary.attributes.tree

    def match(self, events: EventBatch) -> Hits:
        return self.segmented.match(events, self.snapshot)

    def match_single(self, event: SingleEvent) -> NDArray[np.int64]:
        segmented = self.segmented
        computed = segmented.observed(event, self.snapshot)
        snapshot = segmented.readable(self.snapshot, 1)
        return snapshot.match_single(computed, segmented.vocabulary)  # type: ignore[arg-type]  # one event stays one


class SnapshotScratch:
    """A thread's scratch memory for matches against snapshots."""

    __slots__ = ("_attributes", "_dense", "_lines", "_values", "addresses", "seen", "turn")

    def __init__(self, lines: int) -> None:
        self._attributes, self._lines = 0, 0
        self._values, self._dense = tail_values(0), dense_buffers(1)
        self.seen: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """For every slot the turn of the last event that had it. Turns ascend over all batches, so that the array never needs clearing."""
        self.turn = 0
        self.make_room(1, 64, 64)

    def make_room(self, lines: int, attributes: int, slots: int) -> None:
        """Enlarges the buffers. Afterwards `addresses` is in the form that match_single takes."""
        if lines <= self._lines and attributes <= self._attributes and slots <= len(self.seen):
            return
        if lines > self._lines:
            self._lines, self._dense = lines, dense_buffers(lines)
        if attributes > self._attributes:
            self._attributes = 2 * attributes
            self._values = tail_values(self._attributes)
        if slots > len(self.seen):
            self.seen = np.zeros(slots + slots // 4, dtype=np.int64)
        places = [number for array in self._dense for number in (array.ctypes.data, len(array))]
        values = [array.ctypes.data for array in (*self._values, self.seen)]
        self.addresses: NDArray[np.int64] = np.array([self._attributes, *values, *places])

    def turns(self, events: int) -> int:
        """Reserves a turn for each event. Returns the first."""
        first = self.turn + 1
        self.turn += events
        return first


def _scratch() -> SnapshotScratch:
    return workspace().take("snapshot", SnapshotScratch, 0)
