"""Matches with each subscription named once are the same matches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_pubsub import MatchIndex
from ray_pubsub.index import match_results
from ray_pubsub.index.match_results import distinct_slots


@given(st.lists(st.integers(0, 40)), st.integers(0, 2000))
def test_slots_once_or_each_by_itself(slots: list[int], more: int) -> None:
    places, found, times = distinct_slots(np.array(slots, np.int64), 41 + more)
    assert found[places].tolist() == slots
    assert times.sum() == len(slots)
    if len(slots) * match_results.MANY >= 41 + more:
        assert found.tolist() == list(dict.fromkeys(slots))
        assert times.tolist() == [slots.count(slot) for slot in found.tolist()]


@pytest.mark.parametrize("many", [0, 1 << 40])
def test_the_same_matches(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match_results, "MANY", many)
    index = MatchIndex()
    for number in range(50):
        index.add(f"s{number}" if number % 3 else number, f"x >= {number} or y = {number % 5}")
    events: list[Any] = [{"x": 10}, {"y": 3}, {"x": [1]}, {"x": 60, "y": 1}, {}]
    whole, found = index.match_many(events), index.match_distinct(events)
    assert found.offsets.tolist() == whole.offsets.tolist()
    assert found.ids[found.places].tolist() == whole.subscription_ids.tolist()
    assert found.times.sum() == len(whole)
    if many:
        assert len(found.ids) == len(set(whole.subscription_ids.tolist())) < len(whole)


def test_distinct_matches_may_be_strict() -> None:
    index = MatchIndex()
    index.add("s", "x > 1")
    events = [{"x": 2, "unused": b"1"}, {"x": 2}]
    assert index.match_distinct(events).offsets.tolist() == [0, 1, 2]
    assert index.match_distinct(events, strict=True).offsets.tolist() == [0, 0, 1]
