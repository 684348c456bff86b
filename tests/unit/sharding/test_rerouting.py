"""Whether stored routes are chosen again: all together, when events are sent to fewer shards by enough."""

from __future__ import annotations

from math import inf

import pytest

from ray_pubsub.model.events import read_events
from ray_pubsub.sharding.frequency import AttributeFrequencies
from ray_pubsub.sharding.pivots import UNIVERSAL, Route
from ray_pubsub.sharding.rerouting import Reroute, RouteGroup, fan_out, plan_reroutes

A, B, C, BOTH = Route(("a",)), Route(("b",)), Route(("c",)), Route(("a", "b"))


def seen(count: int = 1000, **shares: float) -> AttributeFrequencies:
    found = AttributeFrequencies()
    found.observe(
        read_events([{name: 1 for name, share in shares.items() if row < share * count} for row in range(count)])
    )
    return found


def test_fan_out() -> None:
    known = seen(a=0.5, b=0.5, c=0.1)
    assert fan_out([], 3, known) == 0
    assert fan_out([(0, A), (0, A), (1, C)], 3, known) == pytest.approx(0.6)
    assert fan_out([(0, BOTH), (1, UNIVERSAL), (1, A)], 2, known) == pytest.approx(1.75)


def test_routes_that_became_bad_are_replaced_and_their_pivots_brought_together() -> None:
    """Every event carries a and b, few carry c and d."""
    known = seen(a=1.0, b=1.0, c=0.02, d=0.02)
    d = Route(("d",))
    groups = [RouteGroup(0, A, C, 30), RouteGroup(0, A, d, 10), RouteGroup(1, B, C, 10), RouteGroup(1, B, d, 40)]
    plan = plan_reroutes(groups, 2, known)
    assert plan.reroutes == [Reroute(A, C, 0, 0), Reroute(A, d, 0, 1), Reroute(B, C, 1, 0), Reroute(B, d, 1, 1)]
    assert (plan.before, plan.after) == (pytest.approx(2.0), pytest.approx(0.04))


def test_nothing_is_done_for_little() -> None:
    known = seen(a=0.5, b=0.4, c=0.01)
    nothing = plan_reroutes([RouteGroup(0, A, B, 10)], 1, known)
    assert nothing.reroutes == [] and nothing.before == nothing.after == pytest.approx(0.5), "within the margin"
    kept = [RouteGroup(0, A, C, 10), RouteGroup(0, UNIVERSAL, UNIVERSAL, 1)]
    assert plan_reroutes(kept, 1, known).reroutes == [], "the shard is asked by every event whatever happens"
    assert plan_reroutes([], 2, known).reroutes == []


def test_what_costs_more_than_it_saves_is_left() -> None:
    known = seen(1000, a=1.0, c=0.0)
    assert plan_reroutes([RouteGroup(0, A, C, 2000)], 1, known).reroutes
    assert not plan_reroutes([RouteGroup(0, A, C, 2100)], 1, known).reroutes


def test_a_change_that_has_lasted_may_cost_more() -> None:
    """However few events are remembered, every subscription gets a better route once that has paid."""
    known, group = seen(1000, a=1.0, c=0.0), RouteGroup(0, A, C, 1_000_000)
    waiting = plan_reroutes([group], 1, known)
    assert not waiting.reroutes and waiting.pays_after == pytest.approx(500_000)
    assert not plan_reroutes([group], 1, known, lasted=499_999).reroutes
    assert plan_reroutes([group], 1, known, lasted=500_000).reroutes
    assert plan_reroutes([RouteGroup(0, A, A, 5)], 1, known).pays_after == inf


def test_what_stays_decides_where_a_pivot_is() -> None:
    known = seen(a=1.0, c=0.01)
    groups = [RouteGroup(0, A, C, 20), RouteGroup(1, C, C, 50)]
    assert plan_reroutes(groups, 2, known).reroutes == [Reroute(A, C, 0, 1)]
