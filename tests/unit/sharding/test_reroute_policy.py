"""When the registry looks at stored routes on its own: only after a change of the stream, and only when a look may pay."""

from __future__ import annotations

from math import inf

import pytest

from ray_pubsub.model.events import read_events
from ray_pubsub.sharding.frequency import AttributeFrequencies
from ray_pubsub.sharding.reroute_policy import ReroutePolicy, RoutesJudged
from ray_pubsub.sharding.rerouting import Reroute, ReroutePlan
from tests.unit.sharding.test_rerouting import A, C, seen

POLICY = ReroutePolicy(chosen_per_visit=10.0)
NEVER_JUDGED = RoutesJudged(AttributeFrequencies(), 0)


def more(known: AttributeFrequencies, count: int, **shares: float) -> AttributeFrequencies:
    """Returns what is known after `count` more events."""
    found = AttributeFrequencies.of_state(known.state())
    found.observe(
        read_events([{name: 1 for name, share in shares.items() if row < share * count} for row in range(count)])
    )
    return found


def test_a_stream_that_stays_the_same_is_no_reason() -> None:
    before = seen(2000, a=1.0, c=0.1)
    judged = RoutesJudged(before, before.observed)
    now = more(before, 5000, a=1.0, c=0.1)
    watched = POLICY.watched(judged, now)
    assert watched.lasted(now) == 0.0
    assert not POLICY.look_is_due(watched, now, 2.0, 1)


def test_a_change_is_looked_at_when_it_has_cost_as_much_as_a_look() -> None:
    before = seen(2000, a=1.0, c=0.1)
    judged = RoutesJudged(before, before.observed)
    now = more(before, 500, a=1.0, c=1.0)
    watched = POLICY.watched(judged, now)
    assert watched is judged and watched.lasted(now) == 500
    assert POLICY.look_is_due(watched, now, 2.0, 10_000)
    assert not POLICY.look_is_due(watched, now, 2.0, 10_001)
    assert not POLICY.look_is_due(watched, now, 0.0, 1), "no visit could be saved"
    assert not POLICY.look_is_due(watched, now, 2.0, 0), "there is nothing to look at"


def test_a_stream_that_turns_back_ends_the_wait() -> None:
    before = seen(2000, a=1.0, c=0.1)
    waiting = RoutesJudged(before, before.observed, pays_after=1e9)
    back = more(before, 10, a=1.0, c=0.1)
    assert POLICY.watched(waiting, back).pays_after == 0.0
    assert POLICY.watched(waiting, back).lasted(back) == 0.0


def test_routes_that_were_chosen_without_events_are_looked_at_once_there_are_some() -> None:
    assert not POLICY.look_is_due(POLICY.watched(NEVER_JUDGED, seen(255, a=1.0)), seen(255, a=1.0), 1.0, 1)
    enough = seen(256, a=1.0)
    assert POLICY.look_is_due(POLICY.watched(NEVER_JUDGED, enough), enough, 1.0, 1)


def test_better_routes_that_do_not_pay_yet_are_waited_for() -> None:
    now = seen(1000, a=1.0)
    waiting = POLICY.after(NEVER_JUDGED, now, ReroutePlan([], 1.0, 1.0, pays_after=5000.0))
    assert not POLICY.look_is_due(POLICY.watched(waiting, now), now, 1.0, 100)
    later = more(now, 4000, a=1.0)
    assert POLICY.look_is_due(POLICY.watched(waiting, later), later, 1.0, 100)


@pytest.mark.parametrize(
    "plan", [ReroutePlan([], 1.0, 1.0, inf), ReroutePlan([Reroute(A, C, 0, 0)], 1.0, 0.1, pays_after=10.0)]
)
def test_after_a_look_routes_are_right_until_the_stream_changes_again(plan: ReroutePlan) -> None:
    now = seen(1000, a=1.0)
    judged = POLICY.after(NEVER_JUDGED, now, plan)
    later = more(now, 4000, a=1.0)
    assert not POLICY.look_is_due(POLICY.watched(judged, later), later, 1.0, 1)
