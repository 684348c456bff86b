"""A live index: immutable blocks, a small tail, tombstones by version. Readers hold a snapshot and never wait for a writer.

Every change has a version. A slot that is removed is marked with the version that removed it; a match at version v leaves out what
was removed at or before v and does not see the tail beyond what v had. So a change is seen wholly or not at all, and nothing is ever
moved under a reader's feet. When to merge is merge_policy.py's decision.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.decoding import join_tables
from ray_pubsub.columns.recipes import Compiled, Compiler
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Hits, Segment, Source
from ray_pubsub.engines.segments import build_segment
from ray_pubsub.index.merge_policy import MergePolicy
from ray_pubsub.index.predicate_table import PredicateTable
from ray_pubsub.index.tail import TailView
from ray_pubsub.kernels.hits import MULTIPLE, RESIDUAL, keep_visible, place_hits
from ray_pubsub.language.shapes import Expression
from ray_pubsub.language.truth import truth
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.settings import Limits

__all__ = ["LiveIndex"]

ALIVE = np.iinfo(np.int64).max


class Snapshot(NamedTuple):
    """All a reader needs."""

    version: int
    blocks: tuple[Segment, ...]
    tail: TailView
    died: NDArray[np.int64]
    """Per slot the version that removed it."""
    flags: NDArray[np.uint8]
    filtered: bool
    """Whether any slot was removed, has several clauses, or is residual: else matches need no second look."""
    residual: dict[int, Source]
    """The sources of the slots whose clauses only find candidates. Replaced, never changed."""


class LiveIndex:
    """Clauses of all subscriptions, in blocks and a tail."""

    def __init__(
        self,
        limits: Limits,
        policy: MergePolicy | None = None,
        build: Callable[[ClauseTable, Vocabulary], Segment] = build_segment,
    ) -> None:
        """`build` makes a segment of clauses: that is the choice of engine."""
        self.policy = policy or MergePolicy()
        self._build = build
        self._removed = 0
        self._vocabulary = Vocabulary()
        self._compiler = Compiler(self._vocabulary, limits)
        self._writing = threading.RLock()
        self._scratch = threading.local()
        self._snapshot = Snapshot(
            0, (), TailView.of(self._compiler.table), np.full(64, ALIVE), np.zeros(64, np.uint8), False, {}
        )

    def change(self, removed: Sequence[int], added: Sequence[int], sources: Sequence[Source]) -> None:
        with self._writing:
            snapshot = self._snapshot
            version = snapshot.version + 1
            died, flags = snapshot.died, snapshot.flags
            if added and max(added) >= len(died):
                size = max(max(added) + 1, 2 * len(died))
                died = np.concatenate([died, np.full(size - len(died), ALIVE)])
                flags = np.concatenate([flags, np.zeros(size - len(flags), np.uint8)])
            blocks = snapshot.blocks
            fresh: dict[int, Source] = {}
            if len(added) > self.policy.tail_clauses:
                table = self._bulk_table(added, sources, flags, fresh)
                if table.count:
                    blocks = (*blocks, self._build(table, self._vocabulary))
            else:
                for slot, source in zip(added, sources, strict=True):
                    self._append(self._compiler.table, slot, source, flags, fresh)
            died[list(removed)] = version
            filtered = (
                snapshot.filtered or bool(removed) or (bool(added) and bool(flags[min(added) : max(added) + 1].any()))
            )
            residual = {**snapshot.residual, **fresh} if fresh else snapshot.residual
            self._snapshot = Snapshot(
                version, blocks, TailView.of(self._compiler.table), died, flags, filtered, residual
            )
            self._removed += len(removed)
            if (
                len(blocks) > len(snapshot.blocks)
                or self._compiler.table.count >= self.policy.tail_clauses
                or self._removed >= self.policy.removals_until_a_look(sum(map(len, blocks)))
            ):
                self.maintain()

    def match(self, events: EventBatch) -> Hits:
        snapshot = self._snapshot
        parts = [block.match(events) for block in snapshot.blocks]
        if snapshot.tail.clauses:
            parts.append(snapshot.tail.match(events, self._vocabulary))
        hits = _gathered(parts, events.size)
        if not snapshot.filtered:
            return hits
        seen, epoch = self._seen(len(snapshot.died), events.size)
        residual = keep_visible(hits.offsets, hits.slots, snapshot.died, snapshot.version, snapshot.flags, seen, epoch)
        hits = Hits(hits.offsets, hits.slots[: hits.offsets[-1]])
        return self._decided(hits, events, snapshot) if residual else hits

    @property
    def nbytes(self) -> int:
        snapshot = self._snapshot
        return (
            sum(block.nbytes for block in snapshot.blocks)
            + snapshot.died.nbytes
            + snapshot.flags.nbytes
            + snapshot.tail.tests.nbytes
        )

    def maintain(self) -> None:
        """Seals and merges as the policy says."""
        with self._writing:
            snapshot = self._snapshot
            self._removed = 0
            if snapshot.tail.clauses >= self.policy.tail_clauses:
                self._seal()
            while chosen := self.policy.choose(*self._sizes()):
                self._merge(chosen)

    def merge_all(self) -> None:
        """Everything into one block, without what was removed."""
        with self._writing:
            if self._snapshot.tail.clauses:
                self._seal()
            if self._snapshot.blocks:
                self._merge(list(range(len(self._snapshot.blocks))))

    def _sizes(self) -> tuple[list[int], list[int]]:
        snapshot = self._snapshot
        dead = [int((snapshot.died[block.owners] <= snapshot.version).sum()) for block in snapshot.blocks]
        return [len(block) for block in snapshot.blocks], dead

    def _seal(self) -> None:
        """The tail becomes a block and a new tail begins."""
        snapshot = self._snapshot
        block = self._build(snapshot.tail.frozen(), self._vocabulary)
        self._compiler.start_table()
        self._snapshot = snapshot._replace(blocks=(*snapshot.blocks, block), tail=TailView.of(self._compiler.table))

    def _merge(self, chosen: list[int]) -> None:
        snapshot = self._snapshot
        blocks = [snapshot.blocks[number] for number in chosen]
        kept = [snapshot.died[block.owners] > snapshot.version for block in blocks]
        table = join_tables([block.table() for block in blocks], kept)
        others = tuple(block for number, block in enumerate(snapshot.blocks) if number not in chosen)
        merged = (self._build(table, self._vocabulary),) if table.count else ()
        residual = {
            slot: source for slot, source in snapshot.residual.items() if snapshot.died[slot] > snapshot.version
        }
        self._snapshot = snapshot._replace(blocks=(*merged, *others), residual=residual)

    def _append(
        self, table: ClauseTable, slot: int, source: Source, flags: NDArray[np.uint8], residual: dict[int, Source]
    ) -> None:
        compiled = self._compiled(slot, source)
        flags[slot] = (MULTIPLE if len(compiled.clauses) > 1 else 0) | (RESIDUAL if compiled.residual else 0)
        if compiled.residual:
            residual[slot] = source
        for records in compiled.clauses:
            table.append(slot, records)

    def _compiled(self, slot: int, source: Source) -> Compiled:
        if isinstance(source, Expression):
            return self._compiler.compile(source)
        return self._compiler.compile_tree(source.tree_at(slot))

    def _bulk_table(
        self, added: Sequence[int], sources: Sequence[Source], flags: NDArray[np.uint8], residual: dict[int, Source]
    ) -> ClauseTable:
        """The clauses of many subscriptions in a table of their own; intervals given in columns never leave them."""
        first = sources[0]
        if isinstance(first, PredicateTable) and first.columnar.all() and list(sources).count(first) == len(sources):
            flags[added[0] : added[-1] + 1] = 0
            return first.clauses(np.array(added, dtype=np.int64), self._vocabulary)
        tail = self._compiler.table
        self._compiler.start_table()
        try:
            table = self._compiler.table
            columnar: dict[int, tuple[PredicateTable, list[int]]] = {}
            for slot, source in zip(added, sources, strict=True):
                if isinstance(source, PredicateTable) and source.columnar[slot - source.first_slot]:
                    columnar.setdefault(id(source), (source, []))[1].append(slot)
                else:
                    self._append(table, slot, source, flags, residual)
            parts = [table] + [source.clauses(np.array(slots), self._vocabulary) for source, slots in columnar.values()]
            return join_tables(parts, [np.ones(part.count, dtype=bool) for part in parts]) if columnar else table
        finally:
            self._compiler.resume_table(tail)

    def _seen(self, slots: int, events: int) -> tuple[NDArray[np.int64], int]:
        scratch: Any = self._scratch
        if getattr(scratch, "seen", None) is None or len(scratch.seen) < slots:
            scratch.seen, scratch.epoch = np.zeros(slots, dtype=np.int64), 1
        epoch: int = scratch.epoch
        scratch.epoch += events
        return scratch.seen, epoch

    def _decided(self, hits: Hits, events: EventBatch, snapshot: Snapshot) -> Hits:
        """Asks the expression of every candidate whose clauses do not decide."""
        rows = events.rows()
        owner = np.repeat(np.arange(events.size), np.diff(hits.offsets))
        keep = np.ones(len(hits.slots), dtype=bool)
        for place in np.flatnonzero(snapshot.flags[hits.slots] & RESIDUAL).tolist():
            slot = int(hits.slots[place])
            keep[place] = truth(snapshot.residual[slot].tree_at(slot), rows[owner[place]]) is True
        counts = np.bincount(owner[keep], minlength=events.size)
        return Hits(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), hits.slots[keep])


def _gathered(parts: list[Hits], events: int) -> Hits:
    if len(parts) == 1:
        return parts[0]
    offsets = np.zeros(events + 1, dtype=np.int64)
    for part in parts:
        offsets += part.offsets
    slots = np.empty(int(offsets[-1]), dtype=np.int64)
    cursor = offsets[:-1].copy()
    for part in parts:
        place_hits(part.offsets, part.slots, cursor, slots)
    return Hits(offsets, slots)
