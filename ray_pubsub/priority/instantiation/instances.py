"""The rule instantiation engine (paper §4.3): rules become boxes of cells, covered cells become signatures in the filters.

For each vector and level a count says how many boxes cover each cell (cover.py), so a signature is added to its filter once, when the first
rule covers it, and removed when the last one is gone. Where answers are confirmed, cells that lie wholly inside a rule are counted too:
an event in such a cell certainly matches, and no index need be asked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.priority.discretizer import Discretizer
from ray_pubsub.priority.instantiation.bloom import CountingFilters
from ray_pubsub.priority.instantiation.boxes import Boxes, Refusal, boxes_of_group
from ray_pubsub.priority.instantiation.clause_groups import ClauseGroup, group_clauses
from ray_pubsub.priority.instantiation.cover import Cells, Cover
from ray_pubsub.priority.instantiation.layout import Layout

__all__ = ["MOST_ATTRIBUTES", "RuleInstances"]

MOST_ATTRIBUTES = 12
"""Attributes of one vector: with two bins each it has 2^12 cells, and a box as many corners."""


class RuleInstances:
    """The instances of all rules except those that are matched exactly. One thread at a time changes them; readers see `filters.bits` and
    the counts of `sure` change, in the order that rule_maintenance.py describes."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        discretizers: dict[str, Discretizer],
        *,
        levels: int,
        signatures: int,
        vectors: int,
        rate: float,
        sure: bool,
    ) -> None:
        """`vectors`: the largest number of vectors. An event is looked up in each; rules with other sets of attributes are matched
        exactly."""
        self.layout = Layout(vocabulary, discretizers, signatures)
        self._most_vectors = vectors
        self.rate = rate
        self.filters = CountingFilters(np.zeros(levels - 1, dtype=np.int64), rate, 1)
        self.cover = Cover(self.layout.vectors, np.uint16)
        # An overflowing count would claim a match that does not exist, so these have 32 bits.
        self.sure = Cover(self.layout.vectors, np.uint32) if sure else None
        self._settling: list[tuple[int, Boxes]] = []
        self.grown = 0
        """How often the filters were enlarged."""

    def add(self, table: ClauseTable, level_of: NDArray[np.uint8]) -> dict[int, str]:
        """Instantiates the clauses of rules (owners) of these levels. Returns the rules that must be matched exactly, with the reason. Sure
        cells count only after `settle`."""
        groups, refused = self._admitted(table)
        self.layout.extend(table, groups)
        made: list[tuple[ClauseGroup, int, Boxes]] = []
        for group in groups:
            number = self.layout.vector_of[group.attributes]
            boxes, problems = boxes_of_group(table, group, self.layout, self.layout.vectors[number])
            refused.update(problems)
            made.append((group, number, boxes))
        fresh: Cells = []
        for group, number, found in made:
            boxes = _without(found, refused)
            vector = self.layout.vectors[number]
            for axis in range(len(vector.columns)):
                vector.open_rest[axis] |= bool((boxes.lows[:, axis] == 0).any())
            fresh += self.cover.add(number, boxes, level_of)
            if self.sure is not None:
                inner, _ = boxes_of_group(table, group, self.layout, vector, inner=True)
                self._settling.append((number, _without(inner, refused)))
        self._insert(fresh)
        return refused

    def settle(self, level_of: NDArray[np.uint8]) -> None:
        """Counts the sure cells of the rules that were added. Call it when every reader that may use them sees these rules."""
        for number, boxes in self._settling:
            assert self.sure is not None
            self.sure.add(number, boxes, level_of)
        self._settling = []

    def unsettle(self, numbers: list[int], level_of: NDArray[np.uint8]) -> None:
        """Removes the sure cells of rules. Call it while every reader still sees these rules."""
        if self.sure is not None:
            self.sure.remove(numbers, level_of)

    def remove(self, numbers: list[int], level_of: NDArray[np.uint8]) -> None:
        """Removes rules; cells that no other rule covers leave the filters."""
        for number, level, cells in self.cover.remove(numbers, level_of):
            self.filters.remove(level, cells, self.layout.vectors[number].salt)

    def _admitted(self, table: ClauseTable) -> tuple[list[ClauseGroup], dict[int, str]]:
        refused: dict[int, str] = {}
        groups: list[ClauseGroup] = []
        room = self._most_vectors - len(self.layout.vectors)
        for group in group_clauses(table):
            is_new = group.attributes not in self.layout.vector_of
            if len(group.attributes) > MOST_ATTRIBUTES or (is_new and room <= 0):
                reason = Refusal.ATTRIBUTES if len(group.attributes) > MOST_ATTRIBUTES else Refusal.VECTORS
                refused.update(dict.fromkeys(table.owners[group.clauses].tolist(), reason))
                continue
            room -= is_new
            groups.append(group)
        return groups, refused

    def _insert(self, fresh: Cells) -> None:
        more = np.zeros_like(self.filters.keys)
        for _, level, cells in fresh:
            more[level - 1] += len(cells)
        if self.filters.has_room(more, self.rate, self.lookups):
            for number, level, cells in fresh:
                self.filters.insert(level, cells, self.layout.vectors[number].salt)
            return
        self.grown += bool(self.filters.keys.any())
        filters = CountingFilters(self.filters.keys + more, self.rate, self.lookups)
        for (number, level), counts in self.cover.counts.items():
            filters.insert(level, np.flatnonzero(counts), self.layout.vectors[number].salt)
        self.filters = filters

    @property
    def lookups(self) -> int:
        """How many lookups one event needs: one for each vector and level that has rules."""
        return max(1, len(self.cover.counts))

    @property
    def occupied(self) -> NDArray[np.uint8]:
        """Which vector has rules of which level."""
        found = np.zeros((len(self.layout.vectors), len(self.filters.keys)), dtype=np.uint8)
        for number, level in self.cover.counts:
            found[number, level - 1] = 1
        return found

    @property
    def nbytes(self) -> int:
        return self.cover.nbytes + self.filters.nbytes + (0 if self.sure is None else self.sure.nbytes)


def _without(boxes: Boxes, refused: dict[int, str]) -> Boxes:
    return boxes.where(~np.isin(boxes.owners, list(refused))) if refused else boxes
