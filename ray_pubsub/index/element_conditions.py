"""The conditions that `exists` has on the elements of one list, as an index in which every element is an event."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.engines.contract import Hits, Source, View
from ray_pubsub.language.printer import write
from ray_pubsub.language.tree import Tree
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.select_events import select_events

__all__ = ["ElementConditions"]


class _Engine(Protocol):
    """The methods of a segmented index that are needed here."""

    def add(self, slot: int, source: Source, replaced: int) -> None: ...

    def view(self) -> View: ...


class _Given:
    """A condition in the form in which an index takes it."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def tree_at(self, slot: int) -> Tree:
        return self._tree

    def text_at(self, slot: int) -> str:
        return write(self._tree)


class ElementConditions:
    """Conditions, with the flags that they raise. Only grows."""

    def __init__(self, engine: _Engine) -> None:
        self._engine = engine
        self._numbers: list[int] = []

    def add(self, number: int, condition: Tree) -> None:
        self._numbers.append(number)
        self._engine.add(len(self._numbers) - 1, _Given(condition), -1)

    def match(self, elements: EventBatch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns elements and the flags that they raise, pair by pair. A null element never satisfies a condition."""
        present = np.zeros(elements.size, bool)
        for lane in elements.lanes:
            present[slice(None) if lane.rows is None else lane.rows] = True
        places = np.flatnonzero(present)
        if not len(places):
            return places, places
        chosen = elements if len(places) == elements.size else select_events(elements, places)
        hits: Hits = self._engine.view().match(chosen)
        owner: Any = np.repeat(np.arange(chosen.size), np.diff(hits.offsets))
        return places[owner], np.array(self._numbers, np.int64)[hits.slots]
