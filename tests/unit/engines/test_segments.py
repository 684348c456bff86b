"""Which segment a set of clauses gets, at the edges of the choice."""

from __future__ import annotations

from functools import cache

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.engines.selection.segment_choice import FEWEST_CHOSEN


@cache
def index_of(text: str) -> MatchIndex:
    index = MatchIndex()
    index.add_many(range(FEWEST_CHOSEN + 10), [text] * (FEWEST_CHOSEN + 10))
    return index


@pytest.mark.parametrize("text", ["true", "x is null", "x is null or x = 1"])
@pytest.mark.parametrize("events", [1, 200])
def test_clauses_that_need_no_attribute(text: str, events: int) -> None:
    index, count = index_of(text), FEWEST_CHOSEN + 10
    assert index.match_many([{}] * events).counts().tolist() == [count] * events
    expected = count if text == "true" else 0
    assert index.match_many([{"x": 7}] * events).counts().tolist() == [expected] * events
