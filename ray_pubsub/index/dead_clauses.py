"""How many of a block's clauses are of removed subscriptions."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from ray_pubsub.engines.contract import Segment
from ray_pubsub.index.snapshot import Snapshot
from ray_pubsub.kernels.index.hits import REMOVED

__all__ = ["DeadClauses"]

STALE_PART = 16
"""A block is counted again once one subscription was removed for every this many of its clauses: counting a million clauses takes
as long as building a block of two thousand, and was done for each of those."""


class DeadClauses:
    """Of the blocks of one live index. Counts are remembered; they may be late, but never too high: what is dead stays dead."""

    def __init__(self) -> None:
        self._counted: WeakKeyDictionary[Segment, tuple[int, int]] = WeakKeyDictionary()
        """Of a block: its dead clauses, and how many subscriptions had been removed by then. A block that was merged is not kept alive."""

    def of(self, snapshot: Snapshot, removed: int) -> list[int]:
        """Per block of the snapshot. `removed`: how many subscriptions were, ever."""
        counts = []
        for block in snapshot.blocks:
            dead, by_then = self._counted.get(block, (-1, 0))
            if dead < 0 or (removed - by_then) * STALE_PART > len(block):
                dead = int(np.count_nonzero(snapshot.flags[block.owners] & REMOVED)) if snapshot.filtered else 0
                self._counted[block] = (dead, removed)
            counts.append(dead)
        return counts

    def known_in(self, snapshot: Snapshot) -> bool:
        """Whether a clause of the snapshot is known to be dead, without looking."""
        return any(self._counted.get(block, (0, 0))[0] > 0 for block in snapshot.blocks)
