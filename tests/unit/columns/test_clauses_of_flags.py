"""Clauses of one flag are found by the flags of events, beside all others, through changes, files and explanations."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.columns.saved_state import SavedState, State, UnfitStateError
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.flag_segment import FlagSegment
from tests.inside_of_index import merge_all, segmented

COUNT = 1500


def text(number: int) -> str:
    kinds = [
        f"list_contains(tags, 't{number % 40}')", f"list_contains(tags, {number % 7})", f"list_has_any(tags, ['t{number % 9}', 't1'])",
        f"geo_within(lat, lon, {40 + number % 10}, {number % 5}, {100 + number})", f"x = {number % 4}",
        f"x >= 1 and list_contains(tags, 't{number}')",
        f"not list_contains(tags, 't{number % 3}')", f"exists(items, price < {number % 6})",
        f"list_contains(tags, 't{number % 4}') or x = {number % 3}",
    ]  # fmt: skip
    return kinds[number % len(kinds)]


def events(count: int) -> list[dict[str, Any]]:
    random = Random(count)
    tags: list[Any] = [*(f"t{number}" for number in range(50)), *range(8), None, 2.5]
    return [
        {
            "x": random.randrange(5),
            "tags": random.choices(tags, k=random.randrange(6)),
            "lat": random.uniform(38, 52),
            "lon": random.uniform(-2, 7),
            "items": [{"price": random.randrange(8)} for _ in range(random.randrange(3))],
        }
        for _ in range(count)
    ]


def answers(index: MatchIndex, given: list[dict[str, Any]]) -> list[list[Any]]:
    found = [sorted(each) for each in index.match_many(given)]
    assert [sorted(index.match(event)) for event in given[:8]] == found[:8]
    return found


def flag_segments(index: MatchIndex) -> list[FlagSegment]:
    return [block for block in segmented(index).snapshot.blocks if isinstance(block, FlagSegment)]


@pytest.mark.parametrize("engine", ["auto", "dexin"])
def test_matches_through_changes_and_files(engine: str, tmp_path: Path) -> None:
    scan, index = MatchIndex("scan"), MatchIndex(engine)
    given = events(25)
    for each in (scan, index):
        each.add_many(range(COUNT), map(text, range(COUNT)), atomic=True)
    assert len(flag_segments(index)) == 1
    assert answers(index, given) == answers(scan, given)
    for each in (scan, index):
        each.remove_many(range(0, COUNT, 3))
        for number in range(0, 300, 6):
            each.add(number, text(number + 1))
    expected = answers(scan, given)
    assert answers(index, given) == expected
    merge_all(segmented(index))
    assert len(flag_segments(index)) == 1
    assert answers(index, given) == expected
    index.save(tmp_path / "index")
    loaded = MatchIndex.load(tmp_path / "index")
    assert len(flag_segments(loaded)) == 1
    assert answers(loaded, given) == expected
    for event in given[:5]:
        plan = index.explain(event)
        (mine,) = (segment for segment in plan.segments if segment.engine == "flags")
        assert mine.partitions.clauses_visited + mine.partitions.clauses_skipped == mine.clauses
        assert plan.matches == len(index.match(event))


def test_flags_far_apart_are_searched_for() -> None:
    index, scan = MatchIndex(), MatchIndex("scan")
    texts = [f"list_contains(tags, 't{number}')" + (" and x > 1" if number % 20 else "") for number in range(COUNT)]
    for each in (index, scan):
        each.add_many(range(COUNT), texts, atomic=True)
    (segment,) = flag_segments(index)
    assert not segment._direct and len(segment) == COUNT / 20
    given = events(40)
    assert answers(index, given) == answers(scan, given)


def test_a_forged_state_is_refused() -> None:
    index = MatchIndex()
    index.add_many(range(COUNT), [f"list_contains(tags, 't{number}')" for number in range(COUNT)], atomic=True)
    (segment,) = flag_segments(index)
    vocabulary = segmented(index).vocabulary

    def restored(known: Vocabulary = vocabulary, **changed: Any) -> FlagSegment:
        state: State = {**segment.state(), **changed}
        return FlagSegment.restored(SavedState(state), known, COUNT)

    assert len(restored()) == COUNT
    numbers = segment.state()["numbers"]
    for changed in (
        {"numbers": numbers[::-1]},
        {"owners": numbers.astype(np.int64) + COUNT},
        {"numbers": numbers[:0], "owners": NONE},
    ):
        with pytest.raises(UnfitStateError):
            restored(**changed)
    with pytest.raises(UnfitStateError):
        restored(Vocabulary())


NONE = np.empty(0, np.int64)
