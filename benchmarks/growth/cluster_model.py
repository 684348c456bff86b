"""A cluster that does not fit here: what many shards would need, from costs that were measured on one.

Subscriptions are placed and events routed by the server's own code, on a sample that stands for all. A shard's time per event and its
memory come from fits over its number of subscriptions. What is left out: waiting in queues, and the coordinators' own work, which is per
shard visited.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.growth.fitting import Fit
from benchmarks.growth.shard_plan import ShardPlan

__all__ = ["Cluster", "ShardCosts", "model_cluster"]

MATCH_BYTES = 12
"""Of a match on its way: a slot of 8 bytes and its share of the offsets."""


@dataclass(frozen=True, slots=True)
class ShardCosts:
    """Measured on one core."""

    match_ms: Fit
    """Per event that visits a shard of this many subscriptions, in batches."""
    bytes_each: Fit
    event_bytes: float
    matches_each: float
    """Matches an event has per subscription."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The answer, for one number of shards."""

    subscriptions: float
    shards: int
    largest: float
    """Subscriptions of the fullest shard."""
    fan_out: float
    events_per_second: float
    """Until the busiest shard, one core, has no time left."""
    slowest_ms: float
    """An event's time in the slowest shard that it visits."""
    memory_gb: float
    """Of all shards."""
    largest_gb: float
    network_bytes: float
    """Per event, to the shards and back."""


def model_cluster(plan: ShardPlan, subscriptions: float, costs: ShardCosts) -> Cluster:
    """`plan`: of a sample; its sizes are scaled to all subscriptions."""
    sizes = plan.sizes * (subscriptions / max(1, plan.sizes.sum()))
    times = np.array([costs.match_ms.at(size) if size else 0.0 for size in sizes])
    share = np.divide(plan.work, plan.sizes, out=np.zeros(plan.shards), where=plan.sizes > 0)
    busy = share * times
    memory = np.array([costs.bytes_each.at(size) if size else 0.0 for size in sizes]) / 2**30
    matches = costs.matches_each * subscriptions
    return Cluster(
        subscriptions,
        plan.shards,
        float(sizes.max()),
        plan.fan_out,
        1e3 / float(busy.max()),
        float(times.max()),
        float(memory.sum()),
        float(memory.max()),
        plan.fan_out * costs.event_bytes + matches * MATCH_BYTES,
    )
