"""What is learned from events decides pivots: the rarest attribute of a clause (OpIndex, Lemma 2)."""

from __future__ import annotations

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.index.pivots import event_frequency
from ray_pubsub.index.pivots.event_frequency import FEWEST, MEMORY, EventFrequency
from ray_pubsub.model.events import read_events


def vocabulary(*names: str) -> Vocabulary:
    words = Vocabulary()
    words.attributes.numbers(names)
    return words


def test_parts_of_events() -> None:
    frequency = EventFrequency()
    assert frequency.of(vocabulary("often")) is None
    frequency.observe(read_events([{"often": 1} | ({"rare": 2} if n % 10 == 0 else {}) for n in range(1000)]))
    assert frequency.of(vocabulary("rare", "often", "never")).tolist() == [0.1, 1.0, 0.0]


def test_single_events_are_sampled() -> None:
    frequency = EventFrequency()
    for _ in range(FEWEST * 16):
        frequency.observe(read_events([{"x": 1}]))
    assert frequency.of(vocabulary("x", "y")).tolist() == [1.0, 0.0]


def test_the_past_fades() -> None:
    frequency = EventFrequency()
    old, new = read_events([{"old": 1}] * 10_000), read_events([{"new": 1}] * 10_000)
    for batch in [old] * (MEMORY // 10_000) + [new] * (3 * MEMORY // 10_000):
        frequency.observe(batch)
    past, present = frequency.of(vocabulary("old", "new")).tolist()
    assert past < 0.2 and present > 0.8


def test_pivots_follow_the_events() -> None:
    """Every event carries `type`, one in a hundred `serial`: after learning, an event without `serial` meets no clause."""
    index = MatchIndex("opindex")
    index.match_many([{"type": 1} | ({"serial": n} if n % 100 == 0 else {}) for n in range(2000)])
    index.add_many(range(3000), [f"serial >= {n} and type <= {n % 5}" for n in range(3000)], atomic=True)
    plan = index.explain({"type": 1})
    assert sum(part.partitions.clauses_visited for part in plan.segments) == 0
    assert sum(part.partitions.clauses_skipped for part in plan.segments) == 3000
    assert len(index.match({"type": 0, "serial": 10})) == 11


def test_names_without_end_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_frequency, "MOST_NAMES", 100)
    frequency = EventFrequency()
    for number in range(100):
        frequency.observe(read_events([{"always": 1, **{f"n{number}_{each}": 1 for each in range(5)}}] * 64))
    assert frequency.names <= 105
    assert frequency.of(vocabulary("always")).tolist() == [1.0]


def test_what_is_known_before_decides_too() -> None:
    """A shard that starts again receives it from the registry."""
    index = MatchIndex("opindex", frequencies={"type": 1.0, "serial": 0.01})
    index.add_many(range(3000), [f"serial >= {n} and type <= {n % 5}" for n in range(3000)], atomic=True)
    plan = index.explain({"type": 1})
    assert sum(part.partitions.clauses_visited for part in plan.segments) == 0
