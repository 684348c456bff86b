"""Which segment a set of clauses gets, at the edges of the choice."""

from __future__ import annotations

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.engines.segments import FEWEST_CHOSEN


@pytest.mark.parametrize("text", ["true", "x is null", "x is null or x = 1"])
@pytest.mark.parametrize("events", [1, 200])
def test_clauses_that_need_no_attribute(text: str, events: int) -> None:
    count = FEWEST_CHOSEN + 10
    index = MatchIndex()
    index.add_many(range(count), [text] * count)
    assert index.match_many([{}] * events).counts().tolist() == [count] * events
    expected = count if text == "true" else 0
    assert index.match_many([{"x": 7}] * events).counts().tolist() == [expected] * events
