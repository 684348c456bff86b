"""The optimal decision that DEXIN (section 4.3) and GEM (section III.D) compare their greedy one with: all plans that satisfy Observations
1 to 3 are tried, which takes time exponential in the attributes."""

from __future__ import annotations

import numpy as np

from ray_pubsub.engines.papers.dexin_plan import Floats, Plan

__all__ = ["exhaustive_optimum", "plan_cost"]


def plan_cost(plan: Plan, rates: Floats, costs: Floats, shares: Floats) -> Floats:
    """DEXIN's formula (6), GEM's (3), per event."""
    rate, cost, share = (np.take_along_axis(part, plan.order, axis=1) for part in (rates, costs, shares))
    before = np.cumprod(np.concatenate([np.ones((len(rate), 1)), rate[:, :-1]], axis=1), axis=1)
    is_exclusive = np.arange(rate.shape[1]) < plan.exclusive[:, None]
    total: Floats = np.where(is_exclusive, cost, before * share).sum(axis=1)
    return total


def exhaustive_optimum(rates: Floats, costs: Floats, shares: Floats) -> Plan:
    """Every set of attributes that is not empty as the exclusive ones, the others by ascending rate."""
    events, attributes = rates.shape
    by_rate = np.argsort(rates, axis=1, kind="stable")
    chosen = (np.arange(1, 2**attributes)[:, None] >> np.arange(attributes)) & 1 == 1
    plans = []
    for event in range(events):
        order = by_rate[event]
        rate, cost, share = rates[event, order], costs[event, order], shares[event, order]
        left = np.where(chosen, rate, 1.0).prod(axis=1)
        total = np.where(chosen, cost, 0.0).sum(axis=1)
        for place in range(attributes):
            inclusive = ~chosen[:, place]
            total += np.where(inclusive, left * share[place], 0.0)
            left *= np.where(inclusive, rate[place], 1.0)
        best = chosen[int(np.argmin(total))]
        plans.append((np.concatenate([order[best], order[~best]]), int(best.sum())))
    return Plan(np.array([order for order, _ in plans]), np.array([number for _, number in plans]))
