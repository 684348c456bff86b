"""How wrong the model of a cluster is: a size that no fit has seen is placed by the server's own code, every shard is built and measured
here, one after the other, and the model predicts the same from smaller sizes and a sample."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import ray_pubsub
from benchmarks.growth.cluster_model import Cluster
from benchmarks.growth.measuring import CHECKED, ROUNDS, spent
from benchmarks.growth.shard_plan import ShardPlan
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.workloads import Workload

__all__ = ["MeasuredCluster", "measure_cluster", "part_of_workload"]


class MeasuredCluster(NamedTuple):
    """What the model predicts, measured."""

    largest: int
    fan_out: float
    events_per_second: float
    memory_gb: float

    def errors(self, predicted: Cluster) -> dict[str, float]:
        """Predicted over measured, less one."""
        return {name: getattr(predicted, name) / getattr(self, name) - 1 for name in self._fields}


def measure_cluster(workload: Workload, plan: ShardPlan) -> MeasuredCluster:
    """`plan`: of this whole workload. Each shard gets the events that are routed to it, and all shards together find every match."""
    dicts = workload.event_dicts()
    found: list[list[int]] = [[] for _ in range(CHECKED)]
    busiest, memory = 0.0, 0.0
    for shard in range(plan.shards):
        own = np.flatnonzero(plan.placed == shard)
        if not len(own):
            continue
        index = ray_pubsub.MatchIndex()
        index.add_predicates(part_of_workload(workload, own).predicates())
        memory += index.nbytes / 2**30
        visiting = [number for number in range(len(dicts)) if shard in plan.visited[number]]
        if visiting:
            batch = from_dicts([dicts[number] for number in visiting])
            batch.cells()
            index.match_many(batch)
            busiest = max(busiest, min(spent(index.match_many, batch) for _ in range(ROUNDS)) / len(dicts))
        for number in range(CHECKED):
            if shard in plan.visited[number]:
                found[number] += own[np.array(index.match(dicts[number]), np.int64)].tolist()
    few = replace(workload, event_offsets=workload.event_offsets[: CHECKED + 1])
    for number, right in enumerate(few.matches()):
        assert sorted(found[number]) == right.tolist(), f"event {number}: the shards together do not find its matches"
    return MeasuredCluster(int(plan.sizes.max()), plan.fan_out, 1e3 / busiest, memory)


def part_of_workload(workload: Workload, chosen: NDArray[np.int64]) -> Workload:
    """Returns the same events, and these subscriptions, numbered from zero again."""
    lengths = np.diff(workload.offsets)
    kept = np.zeros(workload.subscriptions, bool)
    kept[chosen] = True
    tests = np.repeat(kept, lengths)
    return replace(
        workload, offsets=np.concatenate([[0], np.cumsum(lengths[kept])]), attribute=workload.attribute[tests],
        low=workload.low[tests], high=workload.high[tests],
    )  # fmt: skip
