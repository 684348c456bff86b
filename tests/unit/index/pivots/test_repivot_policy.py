"""When a block's pivots are chosen again: when what they cost has reached what a rebuild costs, and not by a hair's breadth."""

from __future__ import annotations

from ray_pubsub.engines.contract import PivotCost
from ray_pubsub.index.pivots.repivot_policy import RepivotPolicy, Verdict

POLICY = RepivotPolicy(margin=1.5, rebuild_cost=100)


def test_good_pivots_stay() -> None:
    assert POLICY.judge(1000, PivotCost(10, 10), None, 0.0, 10**9) == Verdict(False, 0.0)
    assert POLICY.judge(1000, PivotCost(14, 10), None, 0.0, 10**9) == Verdict(False, 0.0)
    assert POLICY.judge(1000, PivotCost(0, 0), None, 0.0, 10**9) == Verdict(False, 0.0)


def test_a_block_is_rebuilt_once_its_pivots_have_cost_as_much() -> None:
    """A rebuild costs 100 * 1000; an event costs 40 more than it need."""
    regret, looks = 0.0, 0
    while not (verdict := POLICY.judge(1000, PivotCost(50, 10), None, regret, 500)).rebuild:
        regret, looks = verdict.regret, looks + 1
    assert looks == 4 and verdict.regret == 5 * 500 * 40


def test_a_stream_that_turns_back_clears_the_account() -> None:
    bad, good = PivotCost(50, 10), PivotCost(10, 10)
    regret = 0.0
    for cost in [bad, bad, good] * 100:  # 2 * 40,000 of 100,000
        verdict = POLICY.judge(1000, cost, None, regret, 1000)
        assert not verdict.rebuild
        regret = verdict.regret


def test_what_is_spent_is_at_most_twice_what_was_lost() -> None:
    """However the stream turns: rebuilding never costs more than the bad pivots had, but for the last look's events."""
    for period in (1, 3, 7, 50):
        lost = spent = regret = 0.0
        chosen = 0
        for look in range(1000):
            stream = look // period % 2
            cost = PivotCost(10, 10) if stream == chosen else PivotCost(60, 10)
            lost += (cost.now - cost.again) * 100
            verdict = POLICY.judge(1000, cost, None, regret, 100)
            regret = verdict.regret
            if verdict.rebuild:
                spent, chosen, regret = spent + POLICY.rebuild_cost * 1000, stream, 0.0
        assert spent <= lost


def test_looks_are_rarer_with_more_clauses() -> None:
    assert POLICY.events_until_a_look(0) == POLICY.look_events
    assert POLICY.events_until_a_look(6_400_000) == 100_000
