"""What every engine does; nothing above it knows which one runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.plan import IndexPlan, SegmentPlan
from ray_pubsub.language.tree import Tree
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["Build", "Engine", "Frequency", "Hits", "Segment", "Source"]


class Source(Protocol):
    """Where a subscription comes from: one expression, or a table of intervals that holds many."""

    def tree_at(self, slot: int) -> Tree: ...

    def text_at(self, slot: int) -> str: ...


class Hits(NamedTuple):
    """Matches as slots: event row i is matched by `slots[offsets[i]:offsets[i + 1]]`."""

    offsets: NDArray[np.int64]
    slots: NDArray[np.int64]


class Segment(Protocol):
    """An immutable set of clauses with an index over them. `owners`: the slot each clause belongs to."""

    owners: NDArray[Any]

    def __len__(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    def table(self, chosen: NDArray[np.int64] | None = None) -> ClauseTable:
        """The clauses as records again, for merging; or those with the chosen numbers, in that order."""

    def match(self, events: EventBatch) -> Hits:
        """Owners of the clauses that hold, per event; an owner with several clauses may come more than once."""

    def explain(self, events: EventBatch) -> SegmentPlan:
        """How `match` goes about a batch of one event."""


Frequency = NDArray[np.float64] | None
"""Per attribute number, the part of events that carry it, if it is known."""
Build = Callable[[ClauseTable, Vocabulary, Frequency], Segment]
"""What makes a segment of clauses: the choice of engine. Only those that choose pivots make use of the frequency."""


class Engine(Protocol):
    """Holds subscriptions by slot (a number the index gives each, never twice) and matches events against them."""

    def add(self, slot: int, source: Source, replaced: int) -> None:
        """Puts one in, and takes out the slot it replaces (-1: none)."""

    def remove(self, slot: int) -> None:
        """Takes one out."""

    def change(self, removed: NDArray[np.int64], added: NDArray[np.int64], sources: Any) -> None:
        """Takes out and puts in at once: a match sees all of a change or nothing of it. `sources`: one per added slot, or a table of
        intervals for all of them."""

    def released(self, table: Any) -> Source:
        """After a table of intervals was added: the source to ask about its subscriptions from now on."""

    def clauses_of(self, slots: NDArray[np.int64]) -> tuple[ClauseTable, Vocabulary]:
        """For the sources that `released` gave: the clauses of living slots, in the order of the slots."""

    def compacted(self, slots: NDArray[np.int64], sources: Callable[[int], Source]) -> Engine:
        """An engine of its own with these slots only, numbered from 0 on. `sources`: the source of a new slot."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""

    def match(self, events: EventBatch) -> Hits:
        """May run while another thread changes the engine."""

    def explain(self, events: EventBatch) -> IndexPlan:
        """How `match` goes about a batch of one event."""
