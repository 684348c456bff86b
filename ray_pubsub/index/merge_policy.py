"""When blocks are merged: a decision, not an action."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["MergePolicy"]


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """Size-tiered: blocks of like size are merged when there are enough of them, so every clause is rewritten a logarithmic number of
    times; a block that is mostly dead is rewritten alone, so memory comes back after removals."""

    tail_clauses: int = 1024
    """A tail this long becomes a block."""
    growth: int = 5
    """A tier's blocks are about this many times larger than the tier below's."""
    blocks_per_tier: int = 5
    dead_part: float = 0.3

    def choose(self, sizes: Sequence[int], dead: Sequence[int]) -> list[int]:
        """The blocks to merge into one now; none if all is well."""
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

    def removals_until_a_look(self, clauses: int) -> int:
        """Counting the dead takes time in proportion to the clauses, so it is not done after every removal."""
        return max(self.tail_clauses, int(self.dead_part * clauses / 4))

    def _tier(self, size: int) -> int:
        """Between tiers lies the mean of their sizes: a tail that became a little longer than it should is a tail all the same."""
        tier, limit = 0, self.tail_clauses * self.growth**0.5
        while size > limit:
            tier, limit = tier + 1, limit * self.growth
        return tier
