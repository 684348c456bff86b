"""A few events are kept as they were, and nothing else of their batches."""

from __future__ import annotations

from typing import Any

import pytest

from ray_pubsub.index.pivots import recent_events
from ray_pubsub.index.pivots.recent_events import FEWEST, MOST, RecentEvents
from ray_pubsub.model.events import read_events


def event(number: int) -> dict[str, Any]:
    every = {"whole": number, "part": number + 0.25, "text": f"t{number}é", "yes": number % 2 == 0}
    return (
        every | ({"seldom": f"s{number}"} if number % 5 == 0 else {}) | ({"mixed": number if number % 3 else "three"})
    )


def kept(recent: RecentEvents) -> list[dict[str, Any]]:
    sample = recent.sample()
    assert sample is not None
    return [{name: value.plain for name, value in row.items()} for row in sample.rows()]


def test_they_are_what_was_given() -> None:
    recent = RecentEvents()
    for first in range(0, 300, 100):
        recent.observe(read_events([event(number) for number in range(first, first + 100)]), first)
    found = kept(recent)
    assert found == [event(row["whole"]) for row in found]
    assert FEWEST <= len(found) <= MOST and len({row["whole"] for row in found}) == len(found)


def test_single_events_are_kept_too() -> None:
    recent = RecentEvents()
    for number in range(FEWEST - 1):
        recent.observe(read_events([event(number)]), number)
    assert recent.sample() is None
    recent.observe(read_events([event(FEWEST)]), FEWEST)
    assert [row["whole"] for row in kept(recent)] == [*range(FEWEST - 1), FEWEST]


def test_new_events_take_the_place_of_old_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_events, "PAUSE", 4)
    recent = RecentEvents()
    for number in range(12 * MOST):
        recent.observe(read_events([{"x": number}]), number)
    assert MOST // 2 <= len(kept(recent)) <= MOST
    assert min(row["x"] for row in kept(recent)) > 4 * MOST


def test_another_stream_begins_with_the_latest_events() -> None:
    recent = RecentEvents()
    recent.observe(read_events([{"old": 1}] * 100), 100)
    recent.observe(read_events([{"new": 1}] * 100), 200)
    recent.forget()
    assert {name for row in kept(recent) for name in row} == {"new"}


def test_nothing_of_a_batch_is_kept_alive() -> None:
    recent = RecentEvents()
    batch = read_events([{"text": "x" * 10_000 if number else "a"} for number in range(64)])
    recent.observe(batch, 64)
    for part in recent._parts:
        assert not part.plans and all(lane.whole.base is None for lane in part.lanes)
        assert all(lane.strings is None or lane.strings is not batch.lanes[0].strings for lane in part.lanes)
