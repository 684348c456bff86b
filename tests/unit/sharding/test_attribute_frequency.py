"""Shares of events that carry an attribute: learned, forgotten, merged, kept."""

from __future__ import annotations

import msgpack
import pytest

from ray_pubsub.errors import SettingError
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.events import read_events
from ray_pubsub.sharding.frequency import RAREST, AttributeFrequencies


def batch(events: int, **carried: int) -> EventBatch:
    """A batch of events, of which the first few carry an attribute: name=number."""
    return read_events([{name: 1 for name, count in carried.items() if row < count} for row in range(events)])


def test_values_of_several_kinds_and_absent_ones() -> None:
    seen = AttributeFrequencies()
    seen.observe(read_events([{"x": 1, "y": None}, {"x": "text"}, {"x": None}, {}]))
    assert seen.frequency("x") == 0.5
    assert seen.frequency("y") == 0.0
    assert len(seen) == 1


def test_several_batches() -> None:
    seen = AttributeFrequencies(half_life=10**12)
    seen.observe(batch(10, x=5))
    seen.observe(batch(30, x=30, y=3))
    seen.observe(batch(0))
    assert seen.frequencies() == pytest.approx({"x": 35 / 40, "y": 3 / 40})
    assert seen.events == pytest.approx(40)


def test_what_was_long_ago_is_forgotten() -> None:
    seen = AttributeFrequencies(half_life=10)
    seen.observe(batch(10, old=10))
    seen.observe(batch(10, new=10))
    assert seen.frequency("old") == pytest.approx(1 / 3)
    assert seen.frequency("new") == pytest.approx(2 / 3)


def test_no_overflow_in_the_long_run() -> None:
    seen = AttributeFrequencies(half_life=1)
    for _ in range(100):
        seen.observe(batch(400, x=400, y=100))
    assert seen.frequencies() == pytest.approx({"x": 1.0, "y": 0.25})
    assert seen.events < 1000


def test_merging_is_as_if_all_had_been_seen_in_one_place() -> None:
    left, right, both = (AttributeFrequencies(half_life=10**12) for _ in range(3))
    for each, events in ((left, batch(10, x=4)), (right, batch(30, x=6, y=30))):
        each.observe(events)
        both.observe(events)
    left.merge(right)
    assert left.frequencies() == pytest.approx(both.frequencies())
    assert left.events == pytest.approx(both.events)


def test_only_so_many_attributes_are_kept_and_they_are_the_most_frequent() -> None:
    seen = AttributeFrequencies(most_attributes=4)
    seen.observe(batch(9, a=9, b=8, c=7, d=6, e=5))
    assert sorted(seen.frequencies()) == ["a", "b", "c"]
    other = AttributeFrequencies()
    other.observe(batch(20, x=20, y=20, z=20))
    seen.merge(other)
    assert sorted(seen.frequencies()) == ["x", "y", "z"]


def test_state_survives_msgpack() -> None:
    seen = AttributeFrequencies(half_life=50)
    seen.observe(batch(40, x=10))
    copied = AttributeFrequencies.of_state(msgpack.unpackb(msgpack.packb(seen.state())))
    for each in (seen, copied):
        each.observe(batch(40, y=20))
    assert copied.frequencies() == pytest.approx(seen.frequencies())
    assert copied.half_life == 50


def test_load() -> None:
    seen = AttributeFrequencies()
    assert seen.load("x") == 1.0
    seen.observe(batch(4, x=2))
    assert (seen.load("x"), seen.load("never")) == (0.5, RAREST)


@pytest.mark.parametrize("settings", [{"half_life": 0}, {"most_attributes": 0}, {"half_life": 1.5}])
def test_bad_settings(settings: dict[str, int]) -> None:
    with pytest.raises(SettingError):
        AttributeFrequencies(**settings)
