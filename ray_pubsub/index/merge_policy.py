"""Decides when a tail becomes a block and when blocks are merged; it does neither.

A full tail becomes a block. So does a shorter one when scanning it has cost as much as building the block: an index that is read often is
answered from blocks however small it is, and one that changes more than it is read is not built in vain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["MergePolicy", "is_worth_building", "scan_work"]

SET_WORK = 50
"""The work of evaluating a set that records cannot express, in units of comparing an event with a clause (5 ns)."""
BUILD_WORK, CLAUSE_WORK, BUILT_SET_WORK = 400_000, 500, 3_500
"""The work of building a block, in the same units: at least this, and for each clause, and for each set that records cannot express."""


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """A size-tiered policy: blocks of similar size are merged when there are enough of them, so that every clause is rewritten a
    logarithmic number of times. A block of which more than `dead_part` is dead is rewritten alone, so that memory is freed after
    removals."""

    tail_clauses: int = 1024
    """A tail of this length becomes a block."""
    growth: int = 5
    """The blocks of a tier are about this many times larger than those of the tier below."""
    blocks_per_tier: int = 5
    dead_part: float = 0.3
    """The share of a block's clauses whose subscriptions were removed."""

    def joined_to_tail(self, sizes: Sequence[int], clauses: int) -> list[int]:
        """Returns the blocks that are built again together with a tail of this many clauses. If the tail is not full, these are the blocks
        that a full tail would exceed, so that they do not become many."""
        if clauses >= self.tail_clauses:
            return []
        return [number for number, size in enumerate(sizes) if size < self.tail_clauses]

    def choose(self, sizes: Sequence[int], dead: Sequence[int]) -> list[int]:
        """Returns the blocks to merge into one now; empty if none need to be."""
        tiers: dict[int, list[int]] = {}
        for number, size in enumerate(sizes):
            tiers.setdefault(self._tier(size - dead[number]), []).append(number)
        for tier in sorted(tiers):
            if len(tiers[tier]) >= self.blocks_per_tier:
                return tiers[tier]
        for number, size in enumerate(sizes):
            if dead[number] > self.dead_part * size:
                return [number]
        return []

    def removals_until_count(self, clauses: int) -> int:
        """Returns the number of removals after which dead clauses are counted. Counting takes time in proportion to the clauses, so it
        is not done after every removal."""
        return max(self.tail_clauses, int(self.dead_part * clauses / 4))

    def _tier(self, size: int) -> int:
        """Returns the tier of a size. The limit between tiers is the geometric mean of their sizes, so that a block made of a tail
        that was a little too long is still in the lowest tier."""
        tier, limit = 0, self.tail_clauses * self.growth**0.5
        while size > limit:
            tier, limit = tier + 1, limit * self.growth
        return tier


def scan_work(events: int, clauses: int, sets: int) -> int:
    """Returns the work of comparing events with a tail, in units of one event and one clause of records."""
    return events * (clauses + SET_WORK * sets)


def is_worth_building(scanned: int, clauses: int, sets: int, others: int = 0) -> bool:
    """Returns whether events were compared with a tail (`scanned`, see `scan_work`) for as long as it takes to build a block of it,
    together with this many clauses of other blocks, which are taken to be like those of the tail."""
    if scanned < BUILD_WORK:
        return False
    work = CLAUSE_WORK * clauses + BUILT_SET_WORK * sets
    return scanned >= BUILD_WORK + work + work * others // max(1, clauses)
