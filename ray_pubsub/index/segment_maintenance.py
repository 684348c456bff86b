"""Seals tails and merges blocks, inline or in a thread. The policy decides what is merged (merge_policy.py).

A new block is built beside the index, from immutable blocks, without any lock; only putting it in place takes the writer's lock, briefly.
A tail that is not full is sealed by a match when it was scanned enough (merge_policy.py).
In the background mode a thread does so while changes go on. It is started when there is something to do and ends when there is not, so an
idle index has no thread. If it cannot keep up, changes wait for it, so that memory stays bounded.
"""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np

from ray_pubsub.columns.decoding import join_tables
from ray_pubsub.engines.contract import Segment
from ray_pubsub.index.blocks import Blocks
from ray_pubsub.index.dead_clauses import DeadClauses
from ray_pubsub.index.merge_policy import is_worth_building, scan_work
from ray_pubsub.index.snapshot import Snapshot
from ray_pubsub.kernels.index.hits import REMOVED

if TYPE_CHECKING:
    from ray_pubsub.index.segmented_index import SegmentedIndex

__all__ = ["SegmentMaintenance"]

MOST_SEALED = 8
"""The most full tails that may wait; each is scanned by every match."""


class SegmentMaintenance:
    """Maintains one live index."""

    def __init__(self, index: SegmentedIndex, background: bool) -> None:
        self._index = index
        self.background = background
        self._removed = 0
        self._dead = DeadClauses()
        self._blocks_seen = 0
        self._count_after = index.policy.removals_until_count(0)
        self._look_at = self._count_after
        """Blocks are checked when the total number of removals reaches this."""
        self._one_at_a_time = threading.RLock()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._abandoned = False
        self._scanned = 0
        """The work of scanning the tail since it was begun. Threads that count at once may lose a little of it."""
        self._progress = threading.Condition(index.writing)

    def after_change(self, removed: int) -> None:
        """Called with the writer's lock after every change. Mostly there is nothing to do, which is found out in no time."""
        index = self._index
        snapshot = index.snapshot
        self._removed += removed
        full = snapshot.tail.clauses >= index.policy.tail_clauses
        if full:
            self._scanned = 0
            index.seal()
        blocks = len(snapshot.blocks)
        if not full and not snapshot.sealed and blocks == self._blocks_seen and self._removed < self._look_at:
            return
        self._blocks_seen = blocks
        if not self.background:
            self.run()
            return
        self._start()
        while len(index.snapshot.sealed) >= MOST_SEALED and self._thread is not None:
            self._progress.wait()
        self._raise_failure()

    def before_scan(self, snapshot: Snapshot, events: int) -> Snapshot:
        """Called before this many events are matched against a snapshot with a tail. If scanning it has cost enough, the tail becomes a
        block, and the snapshot with this block is returned. Never waits for a lock."""
        index, tail = self._index, snapshot.tail
        self._scanned += scan_work(events, tail.clauses, tail.opaque)
        if not is_worth_building(self._scanned, tail.clauses, tail.opaque):
            return snapshot
        sizes = [len(block) for block in snapshot.blocks]
        others = sum(sizes[number] for number in index.policy.joined_to_tail(sizes, tail.clauses))
        if not is_worth_building(self._scanned, tail.clauses, tail.opaque, others):
            return snapshot
        # While the thread works on other tails, another one would only make changes wait.
        if snapshot.sealed or self._abandoned or not index.writing.acquire(blocking=False):
            return snapshot
        try:
            self._scanned = 0
            if index.snapshot.tail.clauses:
                index.seal()
                if self.background:
                    self._start()
                else:
                    self.run()
            now = index.snapshot
            return now if now.version == snapshot.version else snapshot
        finally:
            index.writing.release()

    def run(self) -> None:
        """Does everything there is to do now."""
        with self._one_at_a_time:
            removed = self._removed
            self._look_at = removed + self._count_after
            while self._index.snapshot.sealed and not self._abandoned:
                self._build_sealed()
            while not self._abandoned and (chosen := self._index.policy.choose(*self._sizes())):
                self._merge([self._index.snapshot.blocks[number] for number in chosen])
            clauses = sum(map(len, self._index.snapshot.blocks))
            self._count_after = self._index.policy.removals_until_count(clauses)
            self._look_at = removed + self._count_after
            self._blocks_seen = len(self._index.snapshot.blocks)

    def rebuild(self, block: Segment) -> tuple[Segment, ...] | None:
        """Builds one block again, without making a writer wait, and returns the blocks that replace it; None if it was merged meanwhile.
        May be called by any thread that holds no lock."""
        # Inline, merges hold the writer's lock from beginning to end, so that none comes between finding the block and replacing it.
        with self._one_at_a_time if self.background else nullcontext():
            return self._merge([block])

    def wait(self) -> None:
        """Waits until the background thread has nothing left to do. Raises the error with which it failed."""
        while True:
            with self._index.writing:
                thread = self._thread
                if thread is None:
                    self._raise_failure()
                    return
            thread.join()

    def abandon(self) -> None:
        """Stops maintenance, because another index replaces this one."""
        self._abandoned = True

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _start(self) -> None:
        """Starts the thread. Called with the writer's lock, which the thread needs to end, so that it is recorded before it can end."""
        if self._thread is None and not self._abandoned:
            thread = threading.Thread(target=self._work, name="ray-pubsub-merges", daemon=True)
            thread.start()
            self._thread = thread

    def _work(self) -> None:
        index = self._index
        try:
            while True:
                self.run()
                with index.writing:
                    self._progress.notify_all()
                    idle = not index.snapshot.sealed and not index.policy.choose(*self._sizes())
                    if idle or self._abandoned:
                        self._thread = None
                        return
        except BaseException as failure:
            with index.writing:
                self._failure, self._thread = failure, None
                self._progress.notify_all()

    def _sizes(self) -> tuple[list[int], list[int]]:
        snapshot = self._index.snapshot
        return [len(block) for block in snapshot.blocks], self._dead.of(snapshot, self._removed)

    def _build_sealed(self) -> None:
        """Builds one block of all sealed tails. If there are several, building is behind, and a single block takes less time. A tail that
        is not full is built together with the small blocks that were made of others like it."""
        index = self._index
        before = index.snapshot
        tails = before.sealed
        joined = index.policy.joined_to_tail([len(block) for block in before.blocks], sum(map(len, tails)))
        small = [before.blocks[number] for number in joined]
        tables = [block.table() for block in small] + [tail.table() for tail in tails]
        kept = [before.died[block.owners] > before.version for block in small]
        kept += [np.ones(len(tail), dtype=bool) for tail in tails]
        built = index.build(tables[0] if len(tables) == 1 else join_tables(tables, kept))
        with index.writing:
            now = index.snapshot
            gone = {id(block) for block in small}
            others = tuple(block for block in now.blocks if id(block) not in gone)
            index.snapshot = now._replace(blocks=Blocks((*others, *built)), sealed=now.sealed[len(tails) :])
            self._progress.notify_all()

    def _merge(self, blocks: list[Segment]) -> tuple[Segment, ...] | None:
        """Merges blocks. What is removed while this runs stays in the new block, marked as removed; what was removed earlier is left
        out. Returns the new blocks; returns None, and changes nothing, if the old ones no longer exist."""
        index = self._index
        before = index.snapshot
        gone = {id(block) for block in blocks}
        if not gone <= {id(block) for block in before.blocks}:
            return None
        kept = [before.died[block.owners] > before.version for block in blocks]
        table = join_tables([block.table() for block in blocks], kept)
        merged = index.build(table)
        with index.writing:
            now = index.snapshot
            if not gone <= {id(block) for block in now.blocks}:
                return None
            others = tuple(block for block in now.blocks if id(block) not in gone)
            residual = {slot: source for slot, source in now.residual.items() if now.died[slot] > now.version}
            now = now._replace(blocks=Blocks((*merged, *others)), residual=residual)
            filtered = now.filtered and (self._dead.known_in(now) or _needs_a_look(now))
            index.snapshot = now._replace(filtered=filtered)
        return merged


def _needs_a_look(snapshot: Snapshot) -> bool:
    """Returns whether a clause belongs to a removed slot, or to a slot that has flags."""
    flags = snapshot.flags
    return bool(((flags > 0) & (flags < REMOVED)).any()) or any(
        (flags[part.owners[: len(part)]] & REMOVED).any() for part in reversed(snapshot.parts)
    )
