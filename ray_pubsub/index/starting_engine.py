"""An engine for the first minute: while another process compiles the kernels, a small index is answered by the scan, which needs none.

As soon as kernels are ready, or when the index gets large, everything moves to the requested engine. Answers are the same throughout: the
scan is the specification of all engines.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.saved_state import SavedState
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import BuiltParts, Engine, EngineStats, Source, View
from ray_pubsub.engines.explain.plan import IndexPlan
from ray_pubsub.engines.scan import ScanEngine
from ray_pubsub.kernels.readiness import are_ready
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["StartingEngine"]

FEW = 1000
"""More subscriptions than this are not scanned, because an event would take milliseconds. The kernels that are needed are then compiled
here."""


class StartingEngine:
    """Delegates to the scan at first, and later to the engine that `make` makes."""

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self._scan: ScanEngine | None = ScanEngine()
        self._sources: dict[int, Source] = {}
        self._engine: Engine = self._scan
        self._moving = threading.RLock()

    def add(self, slot: int, source: Source, replaced: int) -> None:
        with self._moving:
            self._started(1).add(slot, source, replaced)
            self._note([replaced], {slot: source})

    def remove(self, slot: int) -> None:
        with self._moving:
            self._started().remove(slot)
            self._note([slot], {})

    def change(self, removed: NDArray[np.int64], added: NDArray[np.int64], sources: Any) -> None:
        with self._moving:
            # A table of intervals needs an engine that indexes it.
            listed = isinstance(sources, list | tuple)
            self._started(len(added) if listed or not len(added) else FEW + 1).change(removed, added, sources)
            self._note(removed.tolist(), dict(zip(added.tolist(), sources, strict=True)) if listed else {})

    def released(self, table: Any) -> Source:
        return self._engine.released(table)

    def clauses_of(self, slots: NDArray[np.int64]) -> tuple[ClauseTable, Vocabulary]:
        return self._engine.clauses_of(slots)

    def compacted(self, slots: NDArray[np.int64], sources: Callable[[int], Source]) -> Engine:
        with self._moving:
            return self._started(FEW + 1).compacted(slots, sources)

    def built(self) -> BuiltParts | None:
        with self._moving:
            return self._started(FEW + 1).built()

    def restore(self, state: SavedState, names: list[str], count: int, source_of: Callable[[int], Source]) -> bool:
        with self._moving:
            return self._started(FEW + 1).restore(state, names, count, source_of)

    def wait_for_merges(self) -> None:
        self._engine.wait_for_merges()

    def stats(self) -> EngineStats:
        return self._engine.stats()

    @property
    def nbytes(self) -> int:
        return self._engine.nbytes

    def view(self) -> View:
        if self._scan is None:
            return self._engine.view()
        with self._moving:
            return self._started().view()

    def explain(self, events: EventBatch) -> IndexPlan:
        with self._moving:
            return self._started().explain(events)

    def _note(self, removed: list[int], added: dict[int, Source]) -> None:
        if self._scan is not None:
            for slot in removed:
                self._sources.pop(slot, None)
            self._sources.update(added)

    def _started(self, more: int = 0) -> Engine:
        """Returns the engine to use now, with room for this many more subscriptions."""
        if self._scan is not None and (len(self._sources) + more > FEW or are_ready()):
            engine = self._make()
            if self._sources:
                slots = np.array(list(self._sources), dtype=np.int64)
                engine.change(np.empty(0, dtype=np.int64), slots, list(self._sources.values()))
            self._engine, self._scan, self._sources = engine, None, {}
        return self._engine
