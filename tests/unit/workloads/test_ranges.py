"""The parameters of DEXIN, GEM and REIN come out of their generator."""

from __future__ import annotations

import numpy as np
import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.workloads import Workload, dexin, gem, generate_ranges, rein
from ray_pubsub.workloads.distributions import Distribution, positions

N = 4000


def widths(workload: Workload) -> np.ndarray:
    return workload.high - workload.low


def test_the_same_seed_gives_the_same_arrays() -> None:
    one, two, other = (generate_ranges(dexin(subscriptions=100, seed=seed)) for seed in (1, 1, 2))
    assert np.array_equal(one.low, two.low) and np.array_equal(one.event_value, two.event_value)
    assert not np.array_equal(one.low, other.low)


def test_shares_of_points_and_widths_are_dexin_s() -> None:
    made = generate_ranges(dexin(subscriptions=N, points=0.3))
    wide = widths(made)
    assert abs((wide == 0).mean() - 0.3) < 0.01
    ranged = wide[wide > 0] / 10_000
    assert abs(ranged.mean() - 0.5) < 0.01 and ranged.min() >= 0.199 and ranged.max() <= 0.801
    assert made.low.min() >= 0 and made.high.max() <= 10_000
    assert made.subscriptions == N and made.attributes == 10 and made.events == 1000


@pytest.mark.parametrize("cardinality", [100, 1_000_000])
def test_cardinality(cardinality: int) -> None:
    made = generate_ranges(dexin(subscriptions=N, cardinality=cardinality))
    assert made.high.max() <= cardinality
    assert (len(np.unique(made.low)) <= 101) == (cardinality == 100)


def test_rein_constrains_some_attributes() -> None:
    made = generate_ranges(rein(subscriptions=N, attributes=14, constrained=7, width=(0.25, 0.25)))
    tested = made.attribute.reshape(N, 7)
    assert (np.diff(tested, axis=1) > 0).all()
    assert np.allclose(np.bincount(made.attribute, minlength=14) / N, 0.5, atol=0.04)
    assert (widths(made) == 250_000).all()


@pytest.mark.parametrize(
    ("distribution", "mean", "deviation"),
    [("uniform", 0.5, 0.289), ("normal", 0.5, 0.141), ("pareto", 0.4, 0.154), ("zipf", 0.102, 0.204)],
)
def test_distributions(distribution: Distribution, mean: float, deviation: float) -> None:
    """The Pareto distribution ends at 1, which takes 1/16 of its mass and its mean from 0.5 to 0.4."""
    drawn = positions(np.random.default_rng(1), distribution, (20_000,))
    assert drawn.min() >= 0 and drawn.max() < 1
    assert abs(drawn.mean() - mean) < 0.01 and abs(drawn.std() - deviation) < 0.01


@pytest.mark.parametrize("rate", [0.001, 0.02, 0.2])
@pytest.mark.parametrize("points", [0.0, 0.1, 0.9])
def test_the_matching_rate_is_exact(rate: float, points: float) -> None:
    made = generate_ranges(dexin(subscriptions=N, matching_rate=rate, points=points, events=20))
    assert [len(found) for found in made.matches()] == [round(N * rate)] * 20
    assert abs((widths(made) == 0).mean() - points) < 0.1


def test_half_of_gem_s_bounds_are_open_and_closing_them_changes_nothing() -> None:
    made = generate_ranges(gem(subscriptions=300, cardinality=20, attributes=2, events=60))
    assert made.low_closed is not None and made.high_closed is not None
    assert 0.4 < made.low_closed.mean() < 0.6 and 0.4 < made.high_closed.mean() < 0.6
    index = MatchIndex("rein")
    index.add_predicates(made.predicates())
    found = index.match_many(made.event_dicts())
    closed = MatchIndex("rein")
    closed.add_predicates(made.closed().predicates())
    again = closed.match_many(made.event_dicts())
    for event, expected in enumerate(made.matches()):
        assert sorted(found[event]) == sorted(again[event]) == expected.tolist()
