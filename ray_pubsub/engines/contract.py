"""The contract of every engine. Nothing above it knows which engine runs.

An engine implements segments: a segment is an immutable set of clauses with an index over them. Such an engine is one row of
engines/registry.py, and index/segmented_index.py makes a live index of it. The scan implements `Engine` directly, because the
specification shares no code with what is checked against it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.saved_state import SavedState, State
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.explain.plan import IndexPlan, SegmentPlan
from ray_pubsub.engines.segment_stats import BlockStats, CacheStats, VectorCacheStats
from ray_pubsub.language.tree import Tree
from ray_pubsub.model.attribute_tree import AttributeTree
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.single_event import SingleEvent

__all__ = [
    "Build",
    "BuiltParts",
    "Engine",
    "EngineCost",
    "EngineStats",
    "Frequency",
    "Hits",
    "PivotCost",
    "Segment",
    "Source",
    "View",
]


class Source(Protocol):
    """Where a subscription comes from: one expression, or a table of intervals that holds many."""

    def tree_at(self, slot: int) -> Tree: ...

    def text_at(self, slot: int) -> str: ...


class Hits(NamedTuple):
    """Matches as slots: event row i is matched by `slots[offsets[i]:offsets[i + 1]]`."""

    offsets: NDArray[np.int64]
    slots: NDArray[np.int64]


Frequency = NDArray[np.float64] | None
"""For each attribute number the share of events that have it, if known."""


class PivotCost(NamedTuple):
    """The expected number of clauses that an event visits under their pivots."""

    now: float
    """With the pivots that were chosen when the segment was built."""
    again: float
    """With the pivots that would be chosen now."""


class EngineCost(NamedTuple):
    """The expected nanoseconds that an event takes."""

    now: float
    """In a segment as it was built."""
    again: float
    """In the one that would be built now."""


class Segment(ABC):
    """Immutable. `match` may run in several threads at once."""

    engine: ClassVar[str]
    """The engine's name in the registry; also the kind of the saved state."""
    owners: NDArray[Any]
    """The slot each clause belongs to."""

    parts: tuple[Segment, ...] = ()
    """The segments that it consists of, if it only combines others."""

    def __len__(self) -> int:
        return len(self.owners)

    @property
    @abstractmethod
    def nbytes(self) -> int: ...

    @abstractmethod
    def table(self, chosen: NDArray[np.int64] | None = None) -> ClauseTable:
        """Returns the clauses as records again, for merging; or those with the chosen numbers, in that order."""

    @abstractmethod
    def match(self, events: EventBatch) -> Hits:
        """Returns the owners of the clauses that hold, for each event; an owner with several clauses may occur more than once."""

    def match_single(self, event: SingleEvent) -> NDArray[np.int64]:
        """Returns the slots of one event, in an array that the caller owns. The offsets of a batch of one take longer to make than many a
        match."""
        return self.match(event).slots

    def prepare(self) -> None:
        """Makes now what would otherwise be made when events have shown that it pays."""
        for part in self.parts:
            part.prepare()

    def wait(self) -> None:
        """Waits until nothing of it is being made in the background."""
        for part in self.parts:
            part.wait()

    @abstractmethod
    def explain(self, events: EventBatch) -> SegmentPlan:
        """How `match` proceeds for a batch of one event."""

    @abstractmethod
    def state(self, slots: NDArray[np.int64] | None = None) -> State:
        """Returns the saved form, from which the engine's `restored` builds the segment again. `slots` maps each slot to the number that
        is saved for it, if it is not the slot itself."""

    @property
    def joint(self) -> bool:
        """Whether the dense segments of an index, this one among them, can match a single event in one call (index/blocks.py)."""
        return False

    def pivot_cost(self, frequency: NDArray[np.float64]) -> PivotCost | None:
        """Returns what its pivots cost with events of this frequency (see `Frequency`); None if pivots do not depend on it. Takes
        milliseconds."""
        return None

    def stats(self) -> tuple[BlockStats, ...]:
        vectors = self._vectors()
        return (BlockStats(self.engine, len(self), 0, self.nbytes, self._cache_stats(), self._details(), vectors),)

    def _cache_stats(self) -> CacheStats | None:
        """None if it keeps no cached bit sets."""
        return None

    def _vectors(self) -> VectorCacheStats | None:
        """None if it has no cache of code vectors."""
        return None

    def _details(self) -> dict[str, int]:
        """Figures about the engine's index, by name."""
        return {}


Build = Callable[[ClauseTable, Vocabulary, Frequency], Segment]
"""Builds a segment of clauses. Only engines that choose pivots use the frequency."""


class EngineStats(NamedTuple):
    """What an engine holds."""

    blocks: tuple[BlockStats, ...]
    tail: int
    """Clauses that were added last and are not in a block yet."""
    removed: int
    """Removed subscriptions that the engine still stores."""
    repivoted: int = 0
    """How often a block was rebuilt because the attributes of events had changed."""
    singles: VectorCacheStats | None = None
    """The statistics of a cache for single events that several blocks share."""


class BuiltParts(Protocol):
    """What an engine has built at one moment; a saved index stores it beside the subscriptions."""

    vocabulary: Vocabulary

    def state(self, slots: NDArray[np.int64]) -> State:
        """Returns the saved form of the clauses of these slots, which must ascend; they are renumbered from 0 on."""

    def tables_of(self, slots: NDArray[np.int64]) -> Any:
        """Yields the clauses of these slots, part by part: the position of each clause's owner in `slots`, and the table of the clauses."""


class View(Protocol):
    """The content of an engine at one moment: later changes are not visible."""

    @property
    def attributes(self) -> AttributeTree:
        """What must be read from events: all attributes that subscriptions test, and possibly more."""

    def match(self, events: EventBatch) -> Hits:
        """May run while another thread changes the engine."""

    def match_single(self, event: SingleEvent) -> NDArray[np.int64]:
        """Returns the slots that one event matches, in an array that the caller owns."""


class Engine(Protocol):
    """Holds subscriptions by slot (a number that the index assigns, never twice) and matches events against them."""

    def add(self, slot: int, source: Source, replaced: int) -> None:
        """Adds a subscription, and removes the slot that it replaces (-1: none)."""

    def remove(self, slot: int) -> None: ...

    def change(self, removed: NDArray[np.int64], added: NDArray[np.int64], sources: Any) -> None:
        """Removes and adds in one step: a match sees either all of a change or nothing. `sources`: one per added slot, or a table of
        intervals for all of them."""

    def released(self, table: Any) -> Source:
        """Called after a table of intervals was added. Returns the source to use for its subscriptions from now on."""

    def clauses_of(self, slots: NDArray[np.int64]) -> tuple[ClauseTable, Vocabulary]:
        """Returns the clauses of live slots, in the order of the slots, for the sources that `released` returned."""

    def compacted(self, slots: NDArray[np.int64], sources: Callable[[int], Source]) -> Engine:
        """Returns a new engine with these slots only, numbered from 0 on. `sources` returns the source of a new slot."""

    def built(self) -> BuiltParts | None:
        """Returns what a saved index can store so that loading need not build it again; None if there is nothing."""

    def restore(self, state: SavedState, names: list[str], count: int, source_of: Callable[[int], Source]) -> bool:
        """Loads what `BuiltParts.state` returned into this empty engine. Returns whether one more slot, after the `count` live ones,
        stands for removed subscriptions. `names`: the attributes; `source_of`: returns the source of a slot whose clauses only find
        candidates. Raises UnfitStateError."""

    def wait_for_merges(self) -> None:
        """Returns when nothing is left to build or merge in the background. Raises the error of a background merge that failed."""

    def stats(self) -> EngineStats: ...

    @property
    def nbytes(self) -> int:
        """The bytes of memory that it holds."""

    def view(self) -> View:
        """Returns the engine as it is now."""

    def explain(self, events: EventBatch) -> IndexPlan:
        """How `match` proceeds for a batch of one event."""
