"""Exact answers from match indexes: one per level for the rules that have instances, one for the rules that are always matched exactly.

Rules are identified by numbers, which are never reused. An index holds at least the rules that are visible at any version a reader may
have; rules that are no longer visible are filtered out of its answers, and removed from it from time to time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.index.bulk.predicate_table import PredicateTable
from ray_pubsub.index.match_index import MatchIndex
from ray_pubsub.index.storage.saved_texts import SavedText
from ray_pubsub.language.shapes import Expression
from ray_pubsub.model.attribute_tree import AttributeTree
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.priority.determination import Determination
from ray_pubsub.settings import Limits

__all__ = ["ALIVE", "RuleIndexes", "Snapshot", "Source", "matched"]

ALIVE = np.iinfo(np.int64).max
Source = Expression | SavedText | PredicateTable


class Snapshot(NamedTuple):
    """The rules at one version."""

    version: int
    numbers: int
    """Rules with this number or a larger one were added later."""
    died: NDArray[np.int64]
    """For each number the version that removed it."""
    level_of: NDArray[np.uint8]
    determination: Determination
    exact_rules: int
    """How many rules are matched exactly for every event."""
    attributes: int
    """The rules test at most this many of the first attributes in the keeper's tree."""

    def sees(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        seen = numbers < self.numbers
        seen[seen] = self.died[numbers[seen]] > self.version
        return seen


class RuleIndexes:
    """The match indexes."""

    def __init__(self, limits: Limits, levels: int) -> None:
        self._by_level = [MatchIndex(limits=limits) for _ in range(levels - 1)]
        self.exact = MatchIndex(limits=limits)

    def of_level(self, level: int) -> MatchIndex:
        """Returns the index of a level above the default."""
        return self._by_level[level - 1]

    def add_to_levels(self, numbers: Sequence[int], level_of: NDArray[np.uint8], sources: Sequence[Source]) -> None:
        """Adds each rule to the index of its level."""
        by_level: dict[int, tuple[list[int], list[Source]]] = {}
        for number, level, source in zip(numbers, level_of[list(numbers)].tolist(), sources, strict=True):
            chosen = by_level.setdefault(level, ([], []))
            chosen[0].append(number)
            chosen[1].append(source)
        for level, (numbers_, sources_) in by_level.items():
            _add(self.of_level(level), numbers_, sources_)

    def add_exact(self, numbers: Sequence[int], sources: Sequence[Source]) -> None:
        """Adds rules that are matched exactly for every event."""
        _add(self.exact, numbers, sources)

    def remove_from_levels(self, numbers: Iterable[int]) -> None:
        chosen = list(numbers)
        for index in self._by_level:
            if chosen:
                index.remove_many(chosen)

    @property
    def attributes(self) -> list[AttributeTree]:
        """The attributes that each index tests."""
        return [index._books.engine.view().attributes for index in (self.exact, *self._by_level)]

    @property
    def nbytes(self) -> int:
        return self.exact.nbytes + sum(index.nbytes for index in self._by_level)


def matched(index: MatchIndex, batch: EventBatch, snapshot: Snapshot) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the pairs of row and rule number that match, for rules that are visible in the snapshot."""
    found = index.match_many(batch)
    numbers = np.asarray(found.subscription_ids, dtype=np.int64)
    rows = np.repeat(np.arange(batch.size), np.diff(found.offsets))
    seen = snapshot.sees(numbers)
    return (rows, numbers) if seen.all() else (rows[seen], numbers[seen])


def _add(index: MatchIndex, numbers: Sequence[int], sources: Sequence[Source]) -> None:
    texts: list[tuple[int, str]] = []
    tables: dict[int, tuple[PredicateTable, list[int]]] = {}
    for number, source in zip(numbers, sources, strict=True):
        if isinstance(source, PredicateTable):
            tables.setdefault(id(source), (source, []))[1].append(number)
        else:
            texts.append((number, source.text))
    if len(texts) == 1:
        index.add(*texts[0])
    elif texts:
        index.add_many([number for number, _ in texts], [text for _, text in texts], atomic=True)
    for table, chosen in tables.values():
        rows: Any = table.arrow(np.array(chosen, dtype=np.int64))
        index.add_predicates(rows, atomic=True)
