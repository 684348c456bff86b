"""What every engine does; nothing above it knows which one runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.language.tree import Tree
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["Engine", "Hits", "Segment", "Source"]


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

    def table(self) -> ClauseTable:
        """The clauses as records again, for merging."""

    def match(self, events: EventBatch) -> Hits:
        """Owners of the clauses that hold, per event; an owner with several clauses may come more than once."""


class Engine(Protocol):
    """Holds subscriptions by slot (a number the index gives each, never twice) and matches events against them."""

    def change(self, removed: Sequence[int], added: Sequence[int], sources: Sequence[Source]) -> None:
        """Takes out and puts in at once: a match sees all of a change or nothing of it."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""

    def match(self, events: EventBatch) -> Hits:
        """May run while another thread changes the engine."""
