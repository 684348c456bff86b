"""The priority paper's rule sets: levels are those of the boxes, and events match at the rate that was asked for."""

from __future__ import annotations

import numpy as np
import pytest

from ray_pubsub.workloads import priority_events, priority_rules


@pytest.mark.parametrize("zipf", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_events_match_at_the_rate(rate: float, zipf: bool) -> None:
    rng = np.random.default_rng(1)
    rules = priority_rules(500, rng)
    values = priority_events(rules, 2000, rate, zipf, rng)
    levels = rules.levels(values)
    assert abs((levels > 0).mean() - rate) < 0.04
    inside = (rules.low <= values[:50, None]) & (values[:50, None] < rules.high)
    expected = np.where(inside.all(axis=2), rules.level, 0).max(axis=1)
    assert levels[:50].tolist() == expected.tolist()
