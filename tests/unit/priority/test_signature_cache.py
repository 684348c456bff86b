"""Cached signatures: hits, bounds, and never a stale answer."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from ray_pubsub import PriorityRules
from ray_pubsub.priority.cache import RESTS, WINDOW, SignatureCache
from ray_pubsub.priority.statistics import SignatureCacheStats
from tests.unit.priority.plain_rules import LEVELS, PlainRules


@pytest.mark.parametrize("confirm", [True, False])
def test_no_answer_survives_a_change(confirm: bool) -> None:
    random_ = Random(1)
    rules, plain = PriorityRules(LEVELS, confirm=confirm, false_positive_rate=1e-6, cache=64), PlainRules()
    events = [{"x": number} for number in range(30)]
    for _ in range(150):
        identity = random_.randrange(15)
        if random_.random() < 0.6:
            level, text = random_.choice(LEVELS), f"x in ({random_.randrange(30)}, {random_.randrange(30)})"
            rules.add(identity, level, text)
            plain.add(identity, level, text)
        else:
            assert rules.remove(identity) == plain.remove(identity)
        for _ in range(2):  # the second time from the cache
            found = [LEVELS.index(level) for level in rules.priorities(events)]
            expected = [plain.number(event) for event in events]
            assert found == expected if confirm else all(np.array(found) >= expected)
    rules.rebuild()
    assert rules.stats().cache.hits > 1000
    if not confirm:
        assert rules.measure(events).by_filter == 0


def test_a_removed_rule_is_gone_from_the_cache_too() -> None:
    """Without confirmation a stale entry would show at once."""
    rules = PriorityRules(LEVELS, confirm=False)
    rules.add("stays", "normal", "x > 100")
    for _ in range(5):
        rules.add("r", "critical", "x = 5")
        assert rules.priorities([{"x": 5}] * 3) == ["critical"] * 3
        rules.remove("r")
        assert rules.priorities([{"x": 5}] * 3) == ["low"] * 3


def test_hits_are_counted() -> None:
    rules = PriorityRules(LEVELS)
    rules.add("r", "high", "x > 5")
    rules.priority({"x": 7})
    rules.priorities([{"x": 8}] * 99)  # in the same bin
    assert rules.stats().cache.hit_rate == 0.99
    off = PriorityRules(LEVELS, cache=0).stats().cache
    assert (off, off.hit_rate) == (SignatureCacheStats(0, 0, 0, 0), 0.0)


def test_entries_are_bounded_and_answers_right_when_they_are_few() -> None:
    rules = PriorityRules(LEVELS, cache=2)
    rules.add_many(range(50), ["high", "normal"] * 25, [f"x = {number}" for number in range(50)])
    expected = ["high", "normal"] * 25
    assert rules.priorities([{"x": number} for number in range(50)]) == expected
    assert [rules.priority({"x": number}) for number in range(50)] == expected
    assert rules.stats().cache.entries == 2


def test_a_cache_without_hits_rests_and_tries_again() -> None:
    cache = SignatureCache(100)
    assert cache.entries == 128
    assert cache.borrow(3, WINDOW) is not None
    assert cache.borrow(3, 1) is None  # one batch at a time
    cache.give_back(WINDOW, 0)
    for _ in range(RESTS):
        assert cache.borrow(3, WINDOW) is None
    assert cache.bypassed == RESTS * WINDOW
    lines = cache.borrow(3, 1)
    assert lines is not None
    assert lines.bins.shape == (128, 3)
    cache.give_back(1, 1)
