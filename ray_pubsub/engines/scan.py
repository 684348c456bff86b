"""The specification: evaluates every subscription on every event, exactly as truth.py defines it. Every other engine must give the same
matches. Nothing is indexed: a set is searched for the event's value, a union of intervals is compared interval by interval."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.saved_state import SavedState
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import EngineStats, Hits, Source
from ray_pubsub.engines.explain.plan import IndexPlan, Partitions, Pipeline, SegmentPlan, Step
from ray_pubsub.engines.explain.trace import timed
from ray_pubsub.engines.segment_stats import BlockStats
from ray_pubsub.language.terms import NOW, attributes_of
from ray_pubsub.language.tree import Tree
from ray_pubsub.language.truth import truth
from ray_pubsub.model.attribute_tree import AttributeTree
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.values import Kind, Value

__all__ = ["ScanEngine"]


class ScanView:
    """The expressions at one moment."""

    def __init__(self, trees: list[tuple[int, Tree]]) -> None:
        self._trees = trees

    @cached_property
    def attributes(self) -> AttributeTree:
        return AttributeTree(name for _, tree in self._trees for name in attributes_of(tree))

    def match(self, events: EventBatch) -> Hits:
        rows = [{**row, NOW: Value(Kind.TIMESTAMP, events.moment)} for row in events.rows()]
        slots: list[list[int]] = [[] for _ in rows]
        for slot, tree in self._trees:
            for row, event in enumerate(rows):
                if truth(tree, event) is True:
                    slots[row].append(slot)
        counts = [len(found) for found in slots]
        flat = np.array([slot for found in slots for slot in found], dtype=np.int64)
        return Hits(np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]), flat)

    def match_single(self, event: EventBatch) -> NDArray[np.int64]:
        return self.match(event).slots


class ScanEngine:
    """An engine without an index: slow, and easily seen to be right."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sources: dict[int, Source] = {}
        self._trees: dict[int, Tree] = {}

    def add(self, slot: int, source: Source, replaced: int) -> None:
        with self._lock:
            self._remove(replaced)
            self._sources[slot] = source

    def remove(self, slot: int) -> None:
        with self._lock:
            self._remove(slot)

    def change(self, removed: NDArray[np.int64], added: NDArray[np.int64], sources: Sequence[Source] | Source) -> None:
        with self._lock:
            for slot in removed.tolist():
                self._remove(slot)
            for place, slot in enumerate(added.tolist()):
                self._sources[slot] = sources[place] if isinstance(sources, Sequence) else sources

    def released(self, table: Source) -> Source:
        return table

    def clauses_of(self, slots: NDArray[np.int64]) -> tuple[ClauseTable, Vocabulary]:
        raise AssertionError("the scan has no clauses; it keeps its tables")

    def compacted(self, slots: NDArray[np.int64], sources: Callable[[int], Source]) -> ScanEngine:
        fresh = ScanEngine()
        fresh._sources = {slot: sources(slot) for slot in range(len(slots))}
        return fresh

    def built(self) -> None:
        return None

    def restore(self, state: SavedState, names: list[str], count: int, source_of: Callable[[int], Source]) -> bool:
        raise AssertionError("the scan builds nothing that could be restored")

    def wait_for_merges(self) -> None:
        """Does nothing: the scan has no merges."""

    def stats(self) -> EngineStats:
        count = len(self._sources)
        return EngineStats((BlockStats("scan", count, 0, self.nbytes),) if count else (), 0, 0)

    def _remove(self, slot: int) -> None:
        self._sources.pop(slot, None)
        self._trees.pop(slot, None)

    @property
    def nbytes(self) -> int:
        return sys.getsizeof(self._sources) + sys.getsizeof(self._trees)

    def view(self) -> ScanView:
        with self._lock:
            present = list(self._sources.items())
        return ScanView([(slot, self._tree(slot, source)) for slot, source in present])

    def explain(self, events: EventBatch) -> IndexPlan:
        hits, seconds = timed(self.view().match, events)
        count, found = len(self._sources), len(hits.slots)
        steps = (Step("", "every expression asked", None, found),)
        pipelines = (Pipeline("all subscriptions", count, steps),)
        segment = SegmentPlan("scan", count, Partitions("whole", 1, 0, count, 0), pipelines, count, found, seconds)
        return IndexPlan((segment,), (), 0, 0, 0, 0, found, seconds)

    def _tree(self, slot: int, source: Source) -> Tree:
        tree = self._trees.get(slot)
        if tree is None:
            tree = source.tree_at(slot)
            with self._lock:
                if self._sources.get(slot) is source:  # not removed meanwhile
                    self._trees[slot] = tree
        return tree
