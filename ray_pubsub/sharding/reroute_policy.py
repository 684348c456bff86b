"""Decides when it is worth looking whether stored subscriptions should get other routes. Pure decisions.

A look chooses the route of every stored subscription again, which may take minutes. So it is taken only if the stream is no longer what
it was when routes were last judged, and only after the visits of shards that might have been saved since then have cost as much as the
look does. What a look finds is carried out when it has paid in the same sense (rerouting.py). So a stream that turns again and again
costs at most about three times what it would cost to know its future (the ski-rental problem).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from ray_pubsub.index.pivots.stream_turn import FEWEST, Counted, has_turned
from ray_pubsub.sharding.frequency import AttributeFrequencies
from ray_pubsub.sharding.rerouting import ReroutePlan

__all__ = ["ReroutePolicy", "RoutesJudged"]


@dataclass(frozen=True, slots=True, eq=False)
class RoutesJudged:
    """What was known of the stream when the routes of stored subscriptions were last judged, and what has happened since."""

    stream: AttributeFrequencies
    same_until: float
    """The number of events observed when the stream was last found to be the same."""
    pays_after: float = 0.0
    """The number of events for which the stream must stay changed until the new routes that were found have paid; 0: not known yet."""

    def lasted(self, now: AttributeFrequencies) -> float:
        """Returns for how many events the stream has been another one."""
        return max(0.0, now.observed - self.same_until)


@dataclass(frozen=True, slots=True)
class ReroutePolicy:
    """Decides when it pays to choose the routes of stored subscriptions again."""

    chosen_per_visit: float = 16.0
    """The number of subscriptions whose route is chosen again in the time that it takes to send an event to one more shard. Assumed, like
    `rerouting.MOVES_PER_VISIT`: it only decides how long a change must have lasted before anyone looks."""

    def watched(self, judged: RoutesJudged, now: AttributeFrequencies) -> RoutesJudged:
        """Returns what is known after a comparison of the stream with the one for which routes were judged."""
        return judged if turned(judged.stream, now) else replace(judged, same_until=now.observed, pays_after=0.0)

    def look_is_due(self, judged: RoutesJudged, now: AttributeFrequencies, fan_out: float, subscriptions: int) -> bool:
        """Returns whether to look. `fan_out` is the number of shards that an event visits now, all of which might be saved."""
        lasted = judged.lasted(now)
        paid = lasted * fan_out * self.chosen_per_visit >= subscriptions
        return bool(lasted and subscriptions) and paid and lasted >= judged.pays_after

    def after(self, judged: RoutesJudged, now: AttributeFrequencies, plan: ReroutePlan) -> RoutesJudged:
        """Returns what is known after a look. Better routes that have not paid yet are waited for; otherwise routes are right now."""
        if not plan.reroutes and plan.pays_after < inf:
            return replace(judged, pays_after=plan.pays_after)
        return RoutesJudged(now, now.observed)


def turned(known: AttributeFrequencies, now: AttributeFrequencies) -> bool:
    """Returns whether the stream has changed. Routes that were chosen before there were any events may all be wrong."""
    if known.events < FEWEST:
        return now.events >= FEWEST
    return has_turned(*(Counted(each.events, each.counts()) for each in (known, now)))
