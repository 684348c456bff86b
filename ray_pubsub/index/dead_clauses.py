"""Counts the clauses of a block that belong to removed subscriptions."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from ray_pubsub.engines.contract import Segment
from ray_pubsub.index.snapshot import Snapshot
from ray_pubsub.kernels.index.hits import REMOVED

__all__ = ["DeadClauses"]

STALE_PART = 16
"""A block is counted again when one subscription was removed for every this many of its clauses: counting a million clauses takes as
long as building a block of two thousand, and used to be done for each such block."""


class DeadClauses:
    """The dead clauses of the blocks of one live index. Counts are remembered; they may lag behind, but are never too high, because what
    is dead stays dead."""

    def __init__(self) -> None:
        self._counted: WeakKeyDictionary[Segment, tuple[int, int]] = WeakKeyDictionary()
        """For each block its number of dead clauses, and how many subscriptions had been removed by then. The keys are weak, so that a
        merged block is not kept alive."""

    def of(self, snapshot: Snapshot, removed: int) -> list[int]:
        """Returns the number of dead clauses of each block of the snapshot. `removed` is the number of subscriptions that were ever
        removed."""
        counts = []
        for block in snapshot.blocks:
            dead, by_then = self._counted.get(block, (-1, 0))
            if dead < 0 or (removed - by_then) * STALE_PART > len(block):
                dead = int(np.count_nonzero(snapshot.flags[block.owners] & REMOVED)) if snapshot.filtered else 0
                self._counted[block] = (dead, removed)
            counts.append(dead)
        return counts

    def known_in(self, snapshot: Snapshot) -> bool:
        """Returns whether a clause of the snapshot is known to be dead, without counting."""
        return any(self._counted.get(block, (0, 0))[0] > 0 for block in snapshot.blocks)
