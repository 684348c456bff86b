"""Plans how subscriptions would be spread over more shards, with the server's own placement and routing (ray_pubsub/sharding), without a
server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.errors import RayPubSubError
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.settings import Limits
from ray_pubsub.sharding.frequency import AttributeFrequencies
from ray_pubsub.sharding.pivots import PivotChooser, PivotColumn
from ray_pubsub.sharding.placement import Placement
from ray_pubsub.sharding.routing import ShardRoutes

__all__ = ["ShardPlan", "observed", "plan_shards", "routes_of_rows", "routes_of_texts"]


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """How subscriptions and events would be spread."""

    shards: int
    sizes: NDArray[np.int64]
    """Subscriptions of each shard."""
    fan_out: float
    """Shards that an event visits, on average, if it is published alone."""
    busiest: float
    """The share of all events that the most visited shard sees."""
    work: NDArray[np.float64]
    """Per shard: its share of the events times its subscriptions, which is what its matching time grows with at most."""
    placed: NDArray[np.integer[Any]]
    """The shard of each subscription."""
    visited: list[frozenset[int]]
    """The shards that each event visits."""

    @property
    def imbalance(self) -> float:
        """The largest shard's subscriptions over the mean."""
        return float(self.sizes.max() / self.sizes.mean()) if self.sizes.sum() else 1.0


def observed(batch: Any) -> AttributeFrequencies:
    """Returns what the server would learn from these events."""
    frequencies = AttributeFrequencies()
    frequencies.observe(batch)
    return frequencies


def routes_of_texts(texts: Iterable[str], frequencies: AttributeFrequencies) -> PivotColumn:
    """Texts that are not valid expressions have no route, and are left out."""
    chooser, shapes = PivotChooser(), ShapeCache(Limits())
    chooser.refresh(frequencies)
    routes = []
    for text in texts:
        with suppress(RayPubSubError):
            routes.append(chooser.route(shapes.parse(text)))
    return PivotColumn.of(routes)


def routes_of_rows(rows: Any, frequencies: AttributeFrequencies) -> PivotColumn:
    """`rows`: as the predicate table of an index has them."""
    chooser = PivotChooser()
    chooser.refresh(frequencies)
    return chooser.routes_of_rows(rows)


def plan_shards(
    routes: PivotColumn,
    ids: NDArray[np.int64],
    events: Sequence[Sequence[str]],
    shards: int,
    frequencies: AttributeFrequencies,
) -> ShardPlan:
    """`events`: the attributes that each event has."""
    placement, visits = Placement(shards, frequencies), ShardRoutes(shards)
    placed = placement.place_many(routes, ids)
    counted, amounts = np.unique(placed.astype(np.int64) * len(routes.routes) + routes.code, return_counts=True)
    for key, amount in zip(counted.tolist(), amounts.tolist(), strict=True):
        shard, code = divmod(key, len(routes.routes))
        visits.add(shard, routes.routes[code], amount)
    seen, visited = np.zeros(shards), []
    for carried in events:
        visited.append(frozenset(visits.visited(carried)))
        seen[list(visited[-1])] += 1
    share = seen / max(1, len(events))
    sizes = np.array(placement.sizes)
    return ShardPlan(shards, sizes, float(share.sum()), float(share.max(initial=0.0)), share * sizes, placed, visited)
