"""Plans, codes and cached bit sets are remembered per batch, layout and block; none may outlive what it was made for.

The same prepared batches are matched again and again while the index under them changes: new attributes, new strings, new kinds of an old
attribute, removals, seals, merges, compaction. A second index shares the batches, so that what one remembered meets the other.
"""

from __future__ import annotations

import random
from functools import cache
from typing import NamedTuple

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.engines.registry import engine_names
from ray_pubsub.model.events import read_events
from tests.inside_of_index import merge_all, segmented

INDEXED = [engine for engine in engine_names() if engine != "scan"]


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


class Step(NamedTuple):
    change: str
    ids: list[str | int]
    texts: list[str]
    matches: list[list[str | int]]
    """Of each event, afterwards."""


def take(change: str, index: MatchIndex, other: MatchIndex, ids: list[str | int], texts: list[str]) -> None:
    if change == "remove":
        index.remove_many(ids)
    elif change == "merge":
        merge_all(segmented(index))
    else:
        (other if change == "add to the other" else index).add_many(ids, texts, atomic=True)


CHANGES: list[tuple[str, float]] = [
    ("add", 40), ("add to the other", 30), ("add", 1100), ("remove", 0.3), ("merge", 0), ("add", 5), ("remove", 0.9),
    ("add to the other", 1100), ("merge", 0), ("add", 300),
]  # fmt: skip


@cache
def history() -> tuple[list[dict[str, object]], list[Step]]:
    """Events and changes, with the oracle's answers, which are the same for every engine."""
    turns, scan = random.Random(11), MatchIndex("scan")
    events = [event(turns) for _ in range(200)]
    steps, following = [], 0
    for change, amount in CHANGES:
        ids: list[str | int] = []
        texts: list[str] = []
        if change == "remove":
            ids = [identity for identity in scan if turns.random() < amount]
        elif change != "merge":
            ids, texts = (
                [following + number for number in range(int(amount))],
                [text(turns) for _ in range(int(amount))],
            )
            following += len(ids)
        if change in ("add", "remove"):
            take(change, scan, scan, ids, texts)
        steps.append(Step(change, ids, texts, [sorted(found) for found in scan.match_many(events)]))
    return events, steps


@pytest.mark.parametrize("engine", INDEXED)
def test_the_same_batches_while_the_index_changes(engine: str) -> None:
    events, steps = history()
    singles = 12
    batches = [read_events(events), *[read_events([each]) for each in events[:singles]]]
    index, other = MatchIndex(engine), MatchIndex(engine)
    for step in steps:
        take(step.change, index, other, step.ids, step.texts)
        expected = [step.matches, *[[each] for each in step.matches[:singles]]]
        for batch, matches in zip(batches, expected, strict=True):
            assert [sorted(found) for found in index.match_many(batch)] == matches
            other.match_many(batch)


def test_a_segment_that_takes_the_place_of_another_in_memory() -> None:
    """What a batch remembers is found by the object it was made for, not by an address that a new object may get."""
    batch = read_events([{"x": value} for value in range(40)])
    for bound in range(30):
        index = MatchIndex("dexin")
        index.add_many(range(1100), [f"x > {(bound + number) % 40}" for number in range(1100)])
        found = [len(matches) for matches in index.match_many(batch)]
        assert found == [sum(value > (bound + number) % 40 for number in range(1100)) for value in range(40)]
        del index
