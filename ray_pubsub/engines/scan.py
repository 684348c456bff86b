"""The oracle: every subscription is evaluated on every event, exactly as truth.py defines it. Every other engine must equal it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

import numpy as np

from ray_pubsub.engines.contract import Hits, Source
from ray_pubsub.language.tree import Tree
from ray_pubsub.language.truth import truth
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["ScanEngine"]


class ScanEngine:
    """No index at all: slow, and obviously right."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sources: dict[int, Source] = {}
        self._trees: dict[int, Tree] = {}

    def change(self, removed: Sequence[int], added: Sequence[int], sources: Sequence[Source]) -> None:
        with self._lock:
            for slot in removed:
                del self._sources[slot]
                self._trees.pop(slot, None)
            self._sources.update(zip(added, sources, strict=True))

    @property
    def nbytes(self) -> int:
        return sys.getsizeof(self._sources) + sys.getsizeof(self._trees)

    def match(self, events: EventBatch) -> Hits:
        with self._lock:
            present = list(self._sources.items())
        rows = events.rows()
        slots: list[list[int]] = [[] for _ in rows]
        for slot, source in present:
            tree = self._tree(slot, source)
            for row, event in enumerate(rows):
                if truth(tree, event) is True:
                    slots[row].append(slot)
        counts = [len(found) for found in slots]
        flat = np.array([slot for found in slots for slot in found], dtype=np.int64)
        return Hits(np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]), flat)

    def _tree(self, slot: int, source: Source) -> Tree:
        tree = self._trees.get(slot)
        if tree is None:
            tree = source.tree_at(slot)
            with self._lock:
                if self._sources.get(slot) is source:  # not removed meanwhile
                    self._trees[slot] = tree
        return tree
