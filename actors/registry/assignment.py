"""Decides which shard a subscription goes to.

A new subscription goes where placement puts it. One that replaces another stays on that shard, so that it is replaced in one step; and one
that was removed a moment ago goes back to where it was (`recent_shards.py`). Placement counts every assignment at once; assignments that
are not committed are taken back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.registry.changes import Change, Subscribe
from actors.registry.recent_shards import RecentShards
from actors.registry.store.store import RegistryStore
from actors.transport.messages import RouteCount
from ray_pubsub.sharding.pivots import PivotColumn
from ray_pubsub.sharding.placement import Placement

__all__ = ["Assignment", "counted"]


class Assignment:
    """Assigns subscriptions to shards. Used by the thread that makes changes."""

    def __init__(self, store: RegistryStore, placement: Placement, longest: float) -> None:
        """`longest` is the seconds that a publication may last."""
        self.placement = placement
        self.recent = RecentShards(longest)
        self._store = store

    def assign(self, changes: Sequence[Change]) -> list[Change]:
        """Returns the changes, with a shard for each new subscription."""
        ids = [change.id for change in changes if isinstance(change, Subscribe)]
        known = {**self.recent.find(ids), **self._store.shards_of(ids)}
        assigned: list[Change] = []
        for change in changes:
            if isinstance(change, Subscribe):
                shard = known.get(change.id)
                if shard is None:
                    shard = self.placement.place(change.route, change.id)
                else:
                    self.placement.put(change.route, shard)
                known[change.id] = shard
                change = replace(change, shard=shard)  # noqa: PLW2901 - the same change, complete
            assigned.append(change)
        return assigned

    def take_back(self, changes: Iterable[Change]) -> None:
        """Takes back the assignments of changes that were not committed."""
        for change in changes:
            if isinstance(change, Subscribe):
                self.placement.remove(change.route, change.shard)

    def assign_many(self, ids: Any, pivots: PivotColumn) -> NDArray[np.int32]:
        """Returns a shard for each of many subscriptions."""
        listed = ids.tolist() if isinstance(ids, np.ndarray) else ids
        known = {**self.recent.find(listed), **self._store.shards_of(listed)}
        if not known:
            return self.placement.place_many(pivots, ids)
        shards = np.array([known.get(identity, -1) for identity in listed], np.int32)
        for shard, route, count in counted(pivots, shards, shards >= 0):
            self.placement.put(route, shard, count)
        new = np.flatnonzero(shards < 0)
        if len(new):
            of_new = PivotColumn(pivots.code[new], pivots.routes)
            shards[new] = self.placement.place_many(of_new, [listed[place] for place in new.tolist()])
        return shards

    def take_back_many(self, pivots: PivotColumn, shards: NDArray[np.int32], which: NDArray[np.bool_]) -> None:
        """Takes back the assignments of the chosen subscriptions, which were not committed."""
        for shard, route, count in counted(pivots, shards, which):
            self.placement.remove(route, shard, count)


def counted(pivots: PivotColumn, shards: NDArray[np.int32], which: NDArray[np.bool_]) -> list[RouteCount]:
    """Counts the chosen subscriptions by shard and route."""
    if not which.any():
        return []
    keys = shards[which].astype(np.int64) << 32 | pivots.code[which]
    values, counts = np.unique(keys, return_counts=True)
    return [
        (key >> 32, pivots.routes[key & 0xFFFF_FFFF], count)
        for key, count in zip(values.tolist(), counts.tolist(), strict=True)
    ]
