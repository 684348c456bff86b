"""Decides when blocks are merged; it does not merge them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["MergePolicy"]


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
