"""Equal clauses are stored once, and every subscription that has them matches."""

from __future__ import annotations

from functools import cache

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.engines.registry import engine_names
from ray_pubsub.engines.shared_segment import SharedSegment
from tests.inside_of_index import merge_all, segmented

COUNT = 3000
EVENTS = [{"x": x / 4, "y": f"k{x % 5}", "z": x % 9} for x in range(0, 40, 3)]


def text(number: int) -> str:
    if number % 3 == 0:
        return f"x > {number % 30 / 4} and y = 'k{number % 5}'"
    if number % 3 == 1:
        return f"z in ({number % 4}, 9) or y like '%{number % 3}'"
    return f"x between {number % 11} and {number % 11 + 0.25} and z != {number % 6}"


def add(index: MatchIndex) -> None:
    index.add_many(range(COUNT), map(text, range(COUNT)), atomic=True)


def change(index: MatchIndex) -> None:
    index.remove_many(range(0, COUNT, 3))
    index.add_many(range(0, COUNT, 7), ["z = 1"] * len(range(0, COUNT, 7)))


@cache
def after_the_change() -> list[list[str | int]]:
    """What the oracle says, the same for every engine."""
    scan = MatchIndex("scan")
    add(scan)
    change(scan)
    return [sorted(found) for found in scan.match_many(EVENTS)]


@pytest.mark.parametrize("engine", [engine for engine in engine_names() if engine != "scan"])
def test_matches_removals_and_merges(engine: str) -> None:
    index = MatchIndex(engine)
    add(index)
    blocks = segmented(index).snapshot.blocks
    assert [type(block) for block in blocks] == [SharedSegment]
    assert len(blocks[0]._inside) < COUNT / 10  # type: ignore[attr-defined]
    change(index)
    expected = after_the_change()
    assert [sorted(found) for found in index.match_many(EVENTS)] == expected
    assert [sorted(index.match(event)) for event in EVENTS] == expected
    assert [sorted(found) for found in index.match_many(EVENTS * 20)] == expected * 20
    merge_all(segmented(index))
    assert [sorted(index.match(event)) for event in EVENTS] == expected


def test_it_saves_memory() -> None:
    same, different = MatchIndex(), MatchIndex()
    same.add_many(range(COUNT), [f"a = {n % 10} and b < {n % 10}" for n in range(COUNT)])
    different.add_many(range(COUNT), [f"a = {n} and b < {n}" for n in range(COUNT)])
    blocks = [segmented(index).snapshot.blocks for index in (same, different)]
    assert sum(block.nbytes for block in blocks[0]) < sum(block.nbytes for block in blocks[1]) / 2


def test_fractions_and_huge_numbers_are_told_apart() -> None:
    operands = [0.1, 0.2, -0.1, -0.2, 2**53, 2**53 + 1, 1e300, 2e300, -1e300, 0, 1]
    index = MatchIndex()
    index.add_many(range(2200), [f"x >= {operands[n % 11]}" for n in range(2200)], atomic=True)
    assert len(segmented(index).snapshot.blocks[0]._inside) == len(operands)  # type: ignore[attr-defined]
    for value in operands:
        assert len(index.match({"x": value})) == 200 * sum(value >= operand for operand in operands)
