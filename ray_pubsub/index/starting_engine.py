"""An engine for the first minute: while another process compiles the kernels, an index is answered by the scan, which needs none.

As soon as kernels are ready, when the index gets large, or when scanning would take longer than to compile the kernels that are needed,
everything moves to the requested engine. Answers are the same throughout: the scan is the specification of all engines.
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
from ray_pubsub.engines.contract import BuiltParts, Engine, EngineStats, Hits, Source, View
from ray_pubsub.engines.explain.plan import IndexPlan
from ray_pubsub.engines.scan import ScanEngine
from ray_pubsub.kernels.readiness import are_ready
from ray_pubsub.model.attribute_tree import AttributeTree
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.single_event import SingleEvent

__all__ = ["StartingEngine", "StartingView"]

FEW = 20_000
"""More subscriptions than this are not scanned. The kernels that are needed are then compiled here."""
SCANNED, MOST_SECONDS = 4e-6, 5.0
"""The approximate seconds that it takes to compare an event with a subscription, and those that may be spent on it: compiling here would
take as long, and after it each event takes microseconds."""


class StartingView:
    """The subscriptions at one moment, scanned as long as that is worth while."""

    def __init__(self, starting: StartingEngine, scanned: View, subscriptions: int, changes: int) -> None:
        self._starting, self._scanned = starting, scanned
        self._subscriptions, self._changes = subscriptions, changes

    @property
    def attributes(self) -> AttributeTree:
        return self._scanned.attributes

    def match(self, events: EventBatch) -> Hits:
        return self._chosen(events).match(events)

    def match_single(self, event: SingleEvent) -> NDArray[np.int64]:
        return self._chosen(event).match_single(event)

    def _chosen(self, events: EventBatch) -> View:
        """Returns the view to match events against. The engine's own is used only if nothing was changed meanwhile."""
        moved = self._starting.before_scan(SCANNED * events.size * self._subscriptions, self._changes)
        return self._scanned if moved is None else moved


class StartingEngine:
    """Delegates to the scan at first, and later to the engine that `make` makes."""

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self._scan: ScanEngine | None = ScanEngine()
        self._sources: dict[int, Source] = {}
        self._engine: Engine = self._scan
        self._moving = threading.RLock()
        self._changes = 0
        self._seconds = 0.0
        """That were spent on scanning."""

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
            view = self._started().view()
            return view if self._scan is None else StartingView(self, view, len(self._sources), self._changes)

    def before_scan(self, seconds: float, changes: int) -> View | None:
        """Called before a scan of the subscriptions that there were after this many changes. `seconds`: how long it will take, about. If
        that is too long, returns the view to use instead."""
        with self._moving:
            self._seconds += seconds
            if self._scan is not None and self._seconds <= MOST_SECONDS:
                return None
            return self._started(FEW + 1).view() if changes == self._changes else None

    def explain(self, events: EventBatch) -> IndexPlan:
        with self._moving:
            return self._started().explain(events)

    def _note(self, removed: list[int], added: dict[int, Source]) -> None:
        self._changes += 1
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
