"""Plans, codes and cached bit sets are remembered per batch, layout and block; none may outlive what it was made for.

The same prepared batches are matched again and again while the index under them changes: new attributes, new strings, new kinds of an old
attribute, removals, seals, merges, compaction. A second index shares the batches, so that what one remembered meets the other.
"""

from __future__ import annotations

import random

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.index.engine_choice import ENGINES
from ray_pubsub.model.events import read_events

INDEXED = [engine for engine in ENGINES if engine != "scan"]


def text(turns: random.Random) -> str:
    name = f"a{turns.randrange(6)}"
    return turns.choice(
        [
            f"{name} between {(low := turns.randrange(50))} and {low + turns.randrange(30)}",
            f"{name} = 's{turns.randrange(30)}' or b > {turns.randrange(60)}",
            f"{name} != {turns.randrange(9)} and a{turns.randrange(6)} < {turns.randrange(60)}",
            f"{name} like 's{turns.randrange(3)}%' and not (b = {turns.randrange(5)})",
            f"{name} is null and b in ({turns.randrange(9)}, {turns.randrange(60)})",
        ]
    )


def event(turns: random.Random) -> dict[str, object]:
    values = [lambda: turns.randrange(60), lambda: f"s{turns.randrange(30)}", lambda: turns.randrange(240) / 4]
    return {name: turns.choice(values)() for name in ("a0", "a1", "a2", "a3", "a4", "a5", "b") if turns.random() < 0.8}


def merge(index: MatchIndex) -> None:
    index._books.engine.upkeep.merge_all()


@pytest.mark.parametrize("engine", INDEXED)
def test_the_same_batches_while_the_index_changes(engine: str) -> None:
    turns = random.Random(11)
    events = [event(turns) for _ in range(200)]
    batches = [read_events(events), *[read_events([each]) for each in events[:12]]]
    index, other, scan = MatchIndex(engine), MatchIndex(engine), MatchIndex("scan")
    following = 0

    def add(count: int) -> None:
        nonlocal following
        ids, texts = range(following, following + count), [text(turns) for _ in range(count)]
        following += count
        for each in (index, scan):
            each.add_many(ids, texts, atomic=True)

    def remove(part: float) -> None:
        gone = [identity for identity in scan if turns.random() < part]
        for each in (index, scan):
            each.remove_many(gone)

    def check() -> None:
        for batch in batches:
            expected = [sorted(found) for found in scan.match_many(batch)]
            assert [sorted(found) for found in index.match_many(batch)] == expected
            other.match_many(batch)

    steps = [
        lambda: add(40),
        lambda: other.add_many(range(30), [text(turns) for _ in range(30)]),
        lambda: add(1100),
        lambda: remove(0.3),
        lambda: merge(index),
        lambda: add(5),
        lambda: remove(0.9),
        lambda: other.add_many(range(1100), [text(turns) for _ in range(1100)]),
        lambda: merge(index),
        lambda: add(300),
    ]
    for step in steps:
        step()
        check()


def test_a_segment_that_takes_the_place_of_another_in_memory() -> None:
    """What a batch remembers is found by the object it was made for, not by an address that a new object may get."""
    batch = read_events([{"x": value} for value in range(40)])
    for bound in range(30):
        index = MatchIndex("dexin")
        index.add_many(range(1100), [f"x > {(bound + number) % 40}" for number in range(1100)])
        found = [len(matches) for matches in index.match_many(batch)]
        assert found == [sum(value > (bound + number) % 40 for number in range(1100)) for value in range(40)]
        del index
