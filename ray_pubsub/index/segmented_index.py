"""A live index: immutable blocks, a small tail, tombstones by version. Readers hold a snapshot and never wait for a writer.

Every change has a version. A slot that is removed is marked with the version that removed it; a match at version v leaves out what was
removed at or before v and does not see the tail beyond what v had. So a change is seen completely or not at all, and nothing that a reader
uses is ever moved. Full tails become blocks and blocks are merged in segment_maintenance.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_compiler import Compiled, Compiler
from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.computed.evaluator import Evaluator
from ray_pubsub.columns.decoding import join_tables, move_table
from ray_pubsub.columns.saved_state import SavedState
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.build_parts import build_parts
from ray_pubsub.engines.contract import Build, EngineStats, Hits, Segment, Source
from ray_pubsub.engines.explain.plan import IndexPlan
from ray_pubsub.engines.selection.segment_choice import AutoBuild
from ray_pubsub.index.blocks import Blocks
from ray_pubsub.index.bulk.indexed_table import IndexedTable
from ray_pubsub.index.bulk.predicate_table import PredicateTable
from ray_pubsub.index.bulk.text_batch import TextBatch
from ray_pubsub.index.element_conditions import ElementConditions
from ray_pubsub.index.merge_policy import MergePolicy
from ray_pubsub.index.pivots.event_frequency import EventFrequency
from ray_pubsub.index.pivots.pivot_following import PivotFollowing
from ray_pubsub.index.pivots.repivot_policy import RepivotPolicy
from ray_pubsub.index.plan_of_snapshot import explain_snapshot
from ray_pubsub.index.segment_maintenance import SegmentMaintenance
from ray_pubsub.index.snapshot import ALIVE, IndexView, Slots, Snapshot
from ray_pubsub.index.storage.built_segments import BuiltSegments, restore
from ray_pubsub.index.tail import TailView
from ray_pubsub.index.term_users import TermUsers
from ray_pubsub.index.tombstone_bits import TombstoneBits
from ray_pubsub.kernels.index.hits import LOOK, MULTIPLE, REMOVED, RESIDUAL, set_marks
from ray_pubsub.language.shapes import Expression, Shape
from ray_pubsub.language.terms import attributes_of
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.settings import Limits

__all__ = ["SegmentedIndex"]

MOST_SCANNED = 16_384
"""The most clauses that may be scanned while a thread makes a block of them."""


class SegmentedIndex:
    """The clauses of all subscriptions, in blocks and a tail."""

    def __init__(
        self,
        limits: Limits,
        build: Build,
        policy: MergePolicy | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        background: bool = False,
        frequency: EventFrequency | None = None,
        repivots: RepivotPolicy | None = None,
    ) -> None:
        """`build` makes a segment of clauses, which is the choice of engine. `options` are the engine's, for segments that are restored.
        With `background` maintenance runs in a thread of its own. `frequency` is what is known of events already."""
        self.options = options or {}
        self.policy = policy or MergePolicy()
        self._limits = limits
        self.segment_build = build
        self._vocabulary = Vocabulary()
        self._compiler = Compiler(self._vocabulary, limits)
        self._evaluator = Evaluator(self._vocabulary, self._element_conditions)
        self._users = TermUsers(self._vocabulary)
        self.frequency = frequency or EventFrequency()
        self.writing = threading.RLock()
        self.snapshot = Snapshot(
            0,
            Blocks(),
            (),
            TailView(self._compiler.table),
            Slots.of(np.full(64, ALIVE), np.zeros(64, np.uint8), np.zeros(16, np.uint8)),
            False,
            {},
        )
        self._marks = TombstoneBits()
        self.maintenance = SegmentMaintenance(self, background)
        self.following = PivotFollowing(self, repivots or RepivotPolicy())

    @property
    def vocabulary(self) -> Vocabulary:
        return self._vocabulary

    def built(self) -> BuiltSegments:
        return BuiltSegments(self)

    def restore(self, state: SavedState, names: list[str], count: int, source_of: Callable[[int], Source]) -> bool:
        return restore(self, state, names, count, source_of)

    def wait_for_merges(self) -> None:
        self.following.wait()
        self.maintenance.wait()
        for block in self.snapshot.blocks:
            block.wait()

    def stats(self) -> EngineStats:
        snapshot = self.snapshot
        blocks = tuple(stats for block in snapshot.blocks for stats in block.stats())
        tail = sum(len(tail) for tail in (*snapshot.sealed, snapshot.tail))
        removed = int(np.count_nonzero(snapshot.flags & REMOVED)) if snapshot.filtered else 0
        return EngineStats(blocks, tail, removed, self.following.rebuilt, snapshot.blocks.singles())

    def take_over(
        self, blocks: tuple[Segment, ...], flags: NDArray[np.uint8], dead: bool, residual: dict[int, Source]
    ) -> None:
        """Puts the blocks of a saved index into this empty one, in its vocabulary. `dead`: the last slot is removed."""
        with self.writing:
            died = np.full(max(64, len(flags)), ALIVE)
            padded = np.concatenate([flags, np.zeros(len(died) - len(flags), np.uint8)])
            if dead:
                died[len(flags) - 1] = 0
                padded[len(flags) - 1] |= REMOVED
            filtered = dead or bool(flags.any())
            self._read_also(residual)
            self._users.keep_all()
            self.snapshot = self.snapshot._replace(
                blocks=Blocks(blocks),
                slots=Slots.of(died, padded, self._marks.of(padded)),
                filtered=filtered,
                residual=residual,
            )

    def add(self, slot: int, source: Source, replaced: int) -> None:
        """Adds one subscription, in a few microseconds. `replaced` is the slot that it replaces, or -1."""
        with self.writing:
            old = self.snapshot
            slots = self._room_for(slot)
            died, flags, marks, _ = slots
            residual: dict[int, Source] = {}
            before = self._compiler.table.count
            self._append(self._compiler.table, slot, source, flags, residual)
            self._users.added(self._compiler.table, before)
            version = old.version + 1
            if replaced >= 0:
                self._users.removed(replaced, died, version)
                died[replaced] = version
                flags[replaced] = flags.item(replaced) | REMOVED
                marks = self._marks.remove(marks, replaced)
            flagged = flags.item(slot) != 0
            if flagged:
                self._marks.flagged(marks, slot)
            self.snapshot = Snapshot(
                version,
                old.blocks,
                old.sealed,
                TailView(self._compiler.table),
                slots.with_marks(marks),
                old.filtered or replaced >= 0 or flagged,
                {**old.residual, **residual} if residual else old.residual,
            )
            self.maintenance.after_change(int(replaced >= 0))

    def remove(self, slot: int) -> None:
        """Removes one subscription."""
        with self.writing:
            old = self.snapshot
            version = old.version + 1
            died, flags, marks, _ = old.slots
            self._users.removed(slot, died, version)
            died[slot] = version
            flags[slot] = flags.item(slot) | REMOVED
            slots = old.slots.with_marks(self._marks.remove(marks, slot))
            self.snapshot = Snapshot(version, old.blocks, old.sealed, old.tail, slots, True, old.residual)
            self.maintenance.after_change(1)

    def change(
        self, removed: NDArray[np.int64], added: NDArray[np.int64], sources: Sequence[Source] | PredicateTable
    ) -> None:
        """Removes and adds in one step."""
        with self.writing:
            old = self.snapshot
            version = old.version + 1
            slots = self._room_for(int(added[-1])) if len(added) else old.slots
            died, flags, marks, _ = slots
            blocks, sealed = old.blocks, old.sealed
            residual: dict[int, Source] = {}
            if isinstance(sources, TextBatch):
                blocks, waiting = self._put_batch(sources, blocks, flags, residual)
                sealed = sealed if waiting is None else (*sealed, waiting)
            elif len(added) > self.policy.tail_clauses:
                table = self._bulk_table(added, sources, flags, residual)
                self._users.added(table)
                blocks = Blocks((*blocks, *self.build(table)))
            elif len(added):
                before = self._compiler.table.count
                self._append_many(self._compiler.table, added, _each(sources, len(added)), flags, residual)
                self._users.added(self._compiler.table, before)
            if len(removed):
                self._users.removed(removed, died, version)
                died[removed] = version
                flags[removed] |= REMOVED
                marks = self._marks.remove_many(marks, removed)
            many = len(added) > 0 and bool(flags[added[0] : added[-1] + 1].any())
            if many:
                set_marks(marks, added[flags[added] > 0], LOOK)
            self.snapshot = Snapshot(
                version,
                blocks,
                sealed,
                TailView(self._compiler.table),
                slots.with_marks(marks),
                old.filtered or len(removed) > 0 or many,
                {**old.residual, **residual} if residual else old.residual,
            )
            self.maintenance.after_change(len(removed))

    def view(self) -> IndexView:
        return IndexView(self, self.snapshot)

    def computed(self, events: EventBatch, snapshot: Snapshot) -> EventBatch:
        """Returns the events with the computed attributes of this index that the snapshot tests."""
        return self._evaluator.computed(events, self._users.unused(snapshot.version))

    def match(self, events: EventBatch, snapshot: Snapshot) -> Hits:
        return self.readable(snapshot, events.size).match(self.observed(events, snapshot), self._vocabulary)

    def readable(self, snapshot: Snapshot, events: int) -> Snapshot:
        """Returns the snapshot to match this many events against: the one given, or the same with its tail as a block."""
        return self.maintenance.before_scan(snapshot, events) if snapshot.tail.clauses else snapshot

    def observed(self, events: EventBatch, snapshot: Snapshot) -> EventBatch:
        """Returns the events with computed attributes, after counting which attributes they have."""
        events = self.computed(events, snapshot)
        self.frequency.observe(events)
        if self.frequency.seen >= self.following.look_at:
            self.following.look()
        return events

    def _element_conditions(self) -> ElementConditions:
        """Returns an index for `exists`: the conditions on the elements of one list are its subscriptions, and the elements its events."""
        return ElementConditions(SegmentedIndex(self._limits, self.segment_build, self.policy, options=self.options))

    def explain(self, events: EventBatch) -> IndexPlan:
        return explain_snapshot(snapshot := self.snapshot, self.computed(events, snapshot), self._vocabulary)

    @property
    def nbytes(self) -> int:
        _, blocks, sealed, tail, slots, *_ = self.snapshot
        parts: tuple[Any, ...] = (*blocks, *(each.tests for each in (*sealed, tail)), *slots)
        return sum(int(part.nbytes) for part in parts)

    def clauses_of(self, slots: NDArray[np.int64]) -> tuple[ClauseTable, Vocabulary]:
        """Returns the clauses of living slots, read back from blocks and tails, in the order of their slots."""
        joined = _clauses_of(self.snapshot, slots)
        return joined.take(np.argsort(joined.owners, kind="stable")), self._vocabulary

    def released(self, table: PredicateTable) -> Source:
        """Returns what the subscriptions of a table are read from: if all are plain, their clauses, and the table need not be kept."""
        return IndexedTable(self) if table.plain.all() else table

    def compacted(self, slots: NDArray[np.int64], sources: Callable[[int], Source]) -> SegmentedIndex:
        """Returns a separate index with these slots only, numbered from 0 on, and nothing of what was removed: no clause, no tombstone,
        no word. `sources` returns the source of a new slot."""
        with self.writing:
            old = self.snapshot
            number = np.full(len(old.died), -1, dtype=np.int64)
            number[slots] = np.arange(len(slots))
            fresh = SegmentedIndex(
                self._limits,
                self.segment_build,
                self.policy,
                options=self.options,
                background=self.maintenance.background,
                frequency=self.frequency,
                repivots=self.following.policy,
            )
            fresh.following.rebuilt = self.following.rebuilt
            moved = move_table(_clauses_of(old, slots), number, self._vocabulary, fresh._vocabulary)
            fresh._users.added(moved)
            blocks = fresh.build(moved)
            died, flags = np.full(max(64, len(slots)), ALIVE), np.zeros(max(64, len(slots)), np.uint8)
            flags[: len(slots)] = old.flags[slots]
            residual = {int(number[slot]): sources(int(number[slot])) for slot in old.residual if number[slot] >= 0}
            fresh._read_also(residual)
            fresh.snapshot = fresh.snapshot._replace(
                version=old.version,
                blocks=Blocks(blocks),
                slots=Slots.of(died, flags, fresh._marks.of(flags)),
                filtered=bool(flags.any()),
                residual=residual,
            )
            self.maintenance.abandon()
            return fresh

    def seal(self) -> None:
        """Seals the full tail, which then waits to become a block, and begins a new one."""
        with self.writing:
            old = self.snapshot
            self._compiler.start_table()
            self.snapshot = old._replace(sealed=(*old.sealed, old.tail), tail=TailView(self._compiler.table))

    def build(self, table: ClauseTable) -> tuple[Segment, ...]:
        """Builds the blocks of a table: one of clauses, one of conjunctions of disjunctions, or none if it is empty."""
        build, shares = self.segment_build, self.frequency.of(self._vocabulary)
        if shares is not None and isinstance(build, AutoBuild):
            build = build.seeing(self.frequency.recent.sample())
        return build_parts(table, self._vocabulary, build, shares)

    def _room_for(self, slot: int) -> Slots:
        died, flags, marks, _ = slots = self.snapshot.slots
        if slot < len(died):
            return slots
        size = max(slot + 1, 2 * len(died) if len(died) < 1 << 20 else len(died) + (len(died) >> 2))
        return Slots.of(
            np.concatenate([died, np.full(size - len(died), ALIVE)]),
            np.concatenate([flags, np.zeros(size - len(flags), np.uint8)]),
            self._marks.with_room(marks, size),
        )

    def _put_batch(
        self, batch: TextBatch, blocks: Blocks, flags: NDArray[np.uint8], residual: dict[int, Source]
    ) -> tuple[Blocks, TailView | None]:
        """Adds texts that are compiled already: few go to the tail, many become a block. In the background mode the block is left to the
        thread, unless there are too many texts to be scanned until then: so a change makes others wait for milliseconds only."""
        slots, marks = batch.flagged()
        flags[slots] = marks
        table = batch.clauses(self._vocabulary)
        self._users.added(table)
        for slot, source in batch.residual():
            residual[slot] = source
        if residual:
            self._vocabulary.attributes.numbers(batch.attributes)
        if table.count <= self.policy.tail_clauses:
            self._compiler.table.extend(table)
        elif self.maintenance.background and table.count <= MOST_SCANNED:
            return blocks, TailView(table)
        else:
            blocks = Blocks((*blocks, *self.build(table)))
        return blocks, None

    def _append_many(
        self,
        table: ClauseTable,
        slots: NDArray[np.int64],
        sources: Sequence[Source],
        flags: NDArray[np.uint8],
        residual: dict[int, Source],
    ) -> None:
        """Appends expressions. Consecutive ones of one shape that are conjunctions of intervals are appended together."""
        start = 0
        for shape, run in groupby(sources, key=_shape_of_integers):
            members = list(run)
            here = slots[start : start + len(members)]
            start += len(members)
            recipe = self._compiler.interval_recipe(shape) if shape is not None and len(members) > 1 else None
            if recipe is not None:
                recipe.append_many(table, here, [member.values for member in members])  # type: ignore[attr-defined]
                continue
            for slot, source in zip(here.tolist(), members, strict=True):
                self._append(table, slot, source, flags, residual)

    def _append(
        self, table: ClauseTable, slot: int, source: Source, flags: NDArray[np.uint8], residual: dict[int, Source]
    ) -> None:
        if isinstance(source, Expression):
            recipe = self._compiler.interval_recipe(source.shape)
            if recipe is not None:
                recipe.append(table, slot, source)
                return
        compiled = self._compiled(slot, source)
        repeats = len(compiled.clauses) > 1 and not compiled.conjunctive
        if repeats or compiled.residual:
            flags[slot] = (MULTIPLE if repeats else 0) | (RESIDUAL if compiled.residual else 0)
        if compiled.residual:
            residual[slot] = source
            self._read_also({slot: source})
        for records in compiled.clauses:
            table.append(slot, records)

    def _read_also(self, residual: dict[int, Source]) -> None:
        """Registers the attributes that are tested only by expressions that are evaluated on candidates."""
        for slot, source in residual.items():
            self._vocabulary.attributes.numbers(sorted(attributes_of(source.tree_at(slot))))

    def _compiled(self, slot: int, source: Source) -> Compiled:
        if isinstance(source, Expression):
            return self._compiler.compile(source)
        return self._compiler.compile_tree(source.tree_at(slot))

    def _bulk_table(
        self,
        added: NDArray[np.int64],
        sources: Sequence[Source] | PredicateTable,
        flags: NDArray[np.uint8],
        residual: dict[int, Source],
    ) -> ClauseTable:
        """Returns the clauses of many subscriptions in a table of their own; intervals that were given in columns stay in columns."""
        if isinstance(sources, PredicateTable) and sources.plain.all():
            return sources.clauses(added, self._vocabulary)
        tail = self._compiler.table
        self._compiler.start_table()
        try:
            table = self._compiler.table
            parts = [table]
            plain = np.zeros(len(added), dtype=bool)
            if isinstance(sources, PredicateTable):
                plain = sources.plain[added - sources.first_slot]
                parts.append(sources.clauses(added[plain], self._vocabulary))
            each = _each(sources, len(added))
            others = np.flatnonzero(~plain)
            chosen = each if len(others) == len(each) else [each[place] for place in others.tolist()]
            self._append_many(table, added[others], chosen, flags, residual)
            return join_tables(parts) if plain.any() else table
        finally:
            self._compiler.resume_table(tail)


def _clauses_of(snapshot: Snapshot, slots: NDArray[np.int64]) -> ClauseTable:
    """Returns the clauses of these slots as records again, from blocks and tails."""
    wanted = np.zeros(len(snapshot.died), dtype=bool)
    wanted[slots] = True
    chosen = [(part, np.flatnonzero(wanted[part.owners[: len(part)]])) for part in snapshot.parts]
    return join_tables([part.table(clauses) for part, clauses in chosen if len(clauses)])


def _shape_of_integers(source: Source) -> Shape | None:
    """Returns the shape of an expression whose constants are all integers, in an array; otherwise None."""
    return source.shape if isinstance(source, Expression) and isinstance(source.values, np.ndarray) else None


def _each(sources: Sequence[Source] | PredicateTable, count: int) -> Sequence[Source]:
    return [sources] * count if isinstance(sources, PredicateTable) else sources
