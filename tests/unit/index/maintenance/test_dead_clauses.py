"""Dead clauses are counted seldom, never too many, and soon enough."""

from __future__ import annotations

import random

import numpy as np

from ray_pubsub import MatchIndex
from ray_pubsub.index.dead_clauses import STALE_PART, DeadClauses
from ray_pubsub.index.segmented_index import SegmentedIndex
from ray_pubsub.model.dict_events import from_dicts
from tests.inside_of_index import merge_all


def text(number: int) -> str:
    return f"x between {number % 100} and {number % 100 + 30} and y = {number % 7}"


def test_counts_are_late_but_never_too_high() -> None:
    index, turns, dead = MatchIndex(), random.Random(3), DeadClauses()
    index.add_many(range(4000), map(text, range(4000)))
    index.add_many(range(4000, 9000), map(text, range(4000, 9000)))
    engine = index._books.engine
    assert isinstance(engine, SegmentedIndex)
    victims = turns.sample(range(9000), 2000)
    for number, victim in enumerate(victims, 1):
        index.remove(victim)
        if number % 50:
            continue
        snapshot = engine.snapshot
        known = dead.of(snapshot, number)
        exact = [int((snapshot.died[block.owners] <= snapshot.version).sum()) for block in snapshot.blocks]
        for block, late, right in zip(snapshot.blocks, known, exact, strict=True):
            assert right - len(block) // STALE_PART <= late <= right
        assert not dead.known_in(snapshot) or any(exact)


def test_new_blocks_are_counted_and_old_ones_forgotten() -> None:
    index, dead = MatchIndex(), DeadClauses()
    index.add_many(range(2000), map(text, range(2000)))
    engine = index._books.engine
    assert isinstance(engine, SegmentedIndex)
    index.remove_many(range(100))
    assert dead.of(engine.snapshot, 100) == [100]
    assert dead.known_in(engine.snapshot)
    merge_all(engine)
    assert not dead.known_in(engine.snapshot)
    assert dead.of(engine.snapshot, 100) == [0]
    assert len(dead._counted) == 1, "what was merged is forgotten"


def test_a_reader_sees_what_is_removed_after_its_snapshot() -> None:
    """A slot's flag says that it was removed, `died` says when: an older snapshot has it still."""
    index = MatchIndex()
    index.add_many(range(2000), ["x >= 0"] * 2000)
    engine = index._books.engine
    assert isinstance(engine, SegmentedIndex)
    index.remove(7)
    before = engine.snapshot
    index.remove(8)
    index.remove_many([9, 10])
    index.add(11, "x >= 5")
    for events in ([{"x": 1}], [{"x": 1}, {"x": 2}]):
        batch = from_dicts(events)
        old = before.match(batch, engine.vocabulary)
        new = engine.snapshot.match(batch, engine.vocabulary)
        for number in range(len(events)):
            seen = np.sort(old.slots[old.offsets[number] : old.offsets[number + 1]]).tolist()
            assert seen == [slot for slot in range(2000) if slot != 7]
            seen = np.sort(new.slots[new.offsets[number] : new.offsets[number + 1]]).tolist()
            assert seen == [slot for slot in range(2000) if slot not in (7, 8, 9, 10, 11)]
