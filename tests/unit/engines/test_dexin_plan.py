"""DEXIN's cost model, Algorithm 4, and how near it is to the optimum (section 4.3, Fig. 15)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from benchmarks.reference.optimal_plan import exhaustive_optimum, plan_cost
from ray_pubsub.engines.papers.dexin_plan import (
    Floats,
    Plan,
    cached_cost,
    first_fit,
    removal_costs,
)


def papers_model(rates: Floats) -> tuple[Floats, Floats, Floats]:
    """Formula (4), and clauses that test every attribute."""
    return rates, 1 - rates, np.ones_like(rates)


def test_formula_six() -> None:
    """Exclusive on rates 0.5 and 0.8, then inclusive on 0.9 and 0.6: 0.5 + 0.2 + 0.4 + 0.36."""
    plan = Plan(np.array([[3, 0, 2, 1]]), np.array([2]))
    assert plan_cost(plan, *papers_model(np.array([[0.8, 0.6, 0.9, 0.5]])))[0] == pytest.approx(1.46)


def test_one_method_alone() -> None:
    """Formula (8); and formula (9), with the first attribute's 1 that formula (5) gives it and (9) leaves out."""
    rates = np.array([[0.2, 0.5, 0.7]])
    order = np.array([[0, 1, 2]])
    assert plan_cost(Plan(order, np.array([3])), *papers_model(rates))[0] == pytest.approx(0.8 + 0.5 + 0.3)
    assert plan_cost(Plan(order, np.array([0])), *papers_model(rates))[0] == pytest.approx(1 + 0.2 + 0.1)


def test_algorithm_four_step_by_step() -> None:
    """Sorted 0.7, 0.8, 0.9: ε 0.7 > δ 0.2, then ε 0.56 > δ 0.1. Sorted 0.1, 0.5, 0.95: ε 0.1 ≤ δ 0.5, and 0.95 is not tried."""
    plan = first_fit(*papers_model(np.array([[0.9, 0.7, 0.8], [0.95, 0.5, 0.1]])))
    assert plan.order.tolist() == [[1, 2, 0], [2, 1, 0]]
    assert plan.exclusive.tolist() == [3, 1]


def test_no_attributes_no_events() -> None:
    assert first_fit(*papers_model(np.empty((3, 0)))).exclusive.tolist() == [0, 0, 0]
    assert first_fit(*papers_model(np.empty((0, 4)))).order.shape == (0, 4)


def test_observations() -> None:
    """The best of all plans whatsoever, of every order and every method for each attribute, is among those of Observations 1 to 3."""
    random = np.random.default_rng(3)
    for attributes in (2, 3, 4):
        rates = random.random((20, attributes))
        model = papers_model(rates)
        optimum = plan_cost(exhaustive_optimum(*model), *model)
        for event in range(len(rates)):
            every = min(
                free_cost(rates[event], order, methods)
                for order in itertools.permutations(range(attributes))
                for methods in itertools.product((0, 1), repeat=attributes)
            )
            assert optimum[event] == pytest.approx(every)


def free_cost(rates: Floats, order: tuple[int, ...], methods: tuple[int, ...]) -> float:
    """Formulas (4) to (6) for vectors Q and D that obey no observation."""
    left, total = 1.0, 0.0
    for attribute, method in zip(order, methods, strict=True):
        total += left if method else 1 - float(rates[attribute])
        left *= float(rates[attribute])
    return total


def test_near_the_optimum() -> None:
    """Fig. 15: the gap closes as attributes are added; from ten on it is not seen."""
    random = np.random.default_rng(15)
    ratios = {}
    for attributes in range(2, 15):
        model = papers_model(random.random((40, attributes)))
        near, best = (plan_cost(plan(*model), *model) for plan in (first_fit, exhaustive_optimum))
        assert (near >= best - 1e-12).all()
        ratios[attributes] = float(near.mean() / best.mean())
    print("near-optimal / optimal:", {attributes: round(ratio, 3) for attributes, ratio in ratios.items()})
    assert all(ratio <= 1.05 for attributes, ratio in ratios.items() if attributes >= 10)


def test_attributes_few_clauses_test_are_left_to_the_inclusive_method() -> None:
    """An event without any of a thousand attributes: each excludes its few clauses, but checking all clauses once is cheaper."""
    shares = np.full((1, 1_000), 4 / 1_000)
    rates = 1 - shares
    plan = first_fit(rates, removal_costs(rates, 10_000), shares)
    assert plan.exclusive[0] < 1_000
    dense = np.ones_like(rates)
    assert first_fit(rates, removal_costs(rates, 10_000), dense).exclusive[0] == 1_000


def test_more_caches_cost_less() -> None:
    clauses = 65_536
    costs = [cached_cost(2 * clauses / omega, clauses) for omega in (1, 8, 64, 512)]
    assert costs == sorted(costs, reverse=True)
    assert costs[2] < removal_costs(np.array([[0.5]]), clauses)[0, 0] / 5
