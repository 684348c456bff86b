"""Plans which stored subscriptions get another route, and another shard, because the attributes of events have changed. Pure decisions.

A subscription's route was chosen with the frequencies at that time (pivots.py). A better route saves fan-out: the number of shards that
an event is sent to. Routes only help together: a shard is skipped only if none of its subscriptions needs the event. So all changes are
judged as a whole, and made or not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from ray_pubsub.sharding.frequency import AttributeFrequencies
from ray_pubsub.sharding.pivots import Route

__all__ = ["Reroute", "ReroutePlan", "RouteGroup", "fan_out", "plan_reroutes"]

MARGIN = 1.5
"""A new route must be visited by this many times fewer events, because frequencies are never known exactly."""
LEAST = 0.95
"""The new fan-out must be at most this share of the old one."""
MOVES_PER_VISIT = 2
"""The number of subscriptions that cost as much to move as sending an event to one more shard. Assumed, not measured: it only decides how
long a change must have lasted before routes follow it."""


class RouteGroup(NamedTuple):
    """Subscriptions of one shard that have one route, and would get another (or the same) today."""

    shard: int
    route: Route
    again: Route
    subscriptions: int


@dataclass(frozen=True, slots=True)
class Reroute:
    """Gives the subscriptions of a route on the source another route, and moves them to the target, which may be the same shard."""

    route: Route
    again: Route
    source: int
    target: int


class ReroutePlan(NamedTuple):
    """The routes to change, and what that gains."""

    reroutes: list[Reroute]
    before: float
    """The expected number of shards that an event is sent to, with the current routes."""
    after: float
    """The same with the new routes; equal to `before` if nothing should change."""
    pays_after: float = inf
    """The number of events for which the stream must stay as it is until the changes have paid; infinite if there are no better routes."""


def plan_reroutes(
    groups: Sequence[RouteGroup], shards: int, frequencies: AttributeFrequencies, lasted: float = 0.0
) -> ReroutePlan:
    """Returns the changes that pay if the stream stays as it is for as many events as are remembered, or as it has `lasted` if these are
    more; otherwise no changes. Changed subscriptions go to the shard that has most of their new pivot."""
    before = fan_out(((group.shard, group.route) for group in groups), shards, frequencies)
    better = [group for group in groups if _share(group.route, frequencies) > MARGIN * _share(group.again, frequencies)]
    nothing = ReroutePlan([], before, before)
    if not better:
        return nothing
    changing = set(better)
    of_pivot: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for group in groups:
        home = group.again.home if group in changing else group.route.home
        of_pivot[home][group.shard] += group.subscriptions
    target = {pivot: min(counts, key=lambda shard: (-counts[shard], shard)) for pivot, counts in of_pivot.items()}
    reroutes = [Reroute(group.route, group.again, group.shard, target[group.again.home]) for group in better]
    kept = ((group.shard, group.route) for group in groups if group not in changing)
    after = fan_out([*kept, *((each.target, each.again) for each in reroutes)], shards, frequencies)
    if after > LEAST * before:
        return nothing
    pays_after = sum(group.subscriptions for group in better) / ((before - after) * MOVES_PER_VISIT)
    if pays_after > max(frequencies.events, lasted):
        return nothing._replace(pays_after=pays_after)
    return ReroutePlan(reroutes, before, after, pays_after)


def fan_out(routes: Iterable[tuple[int, Route]], shards: int, frequencies: AttributeFrequencies) -> float:
    """Returns the expected number of shards that an event is sent to; attributes are assumed to occur independently."""
    asked: list[set[str]] = [set() for _ in range(shards)]
    every = [False] * shards
    for shard, route in routes:
        asked[shard].update(route.attributes)
        every[shard] |= route.universal
    total = 0.0
    for shard in range(shards):
        passed = 0.0 if every[shard] else 1.0
        for attribute in asked[shard]:
            passed *= 1 - frequencies.frequency(attribute)
        total += 1 - passed
    return total


def _share(route: Route, frequencies: AttributeFrequencies) -> float:
    """Returns the largest share of events that can visit it."""
    return 1.0 if route.universal else min(1.0, sum(map(frequencies.frequency, route.attributes)))
