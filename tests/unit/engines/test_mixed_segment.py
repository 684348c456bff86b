"""Clauses on common attributes in one segment, the others in another: together they are what one segment would be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Segment
from ray_pubsub.engines.mixed_segment import MixedSegment, on_common_attributes
from ray_pubsub.engines.papers.rein import ReinSegment
from ray_pubsub.engines.pivot.segment import PivotSegment
from ray_pubsub.engines.registry import ENGINES
from ray_pubsub.engines.selection.cost_model import CostModel
from ray_pubsub.engines.selection.machine import TYPICAL
from ray_pubsub.engines.selection.segment_choice import FEWEST_APART, choose_segment
from ray_pubsub.model.dict_events import from_dicts
from tests.inside_of_index import prefer_bitmaps
from tests.unit.engines.coded_tables import EXPRESSIONS, matched, mixed_events, table_of

MODEL = CostModel(ENGINES, TYPICAL)


def texts(common: int, rare: int) -> list[str]:
    """Clauses on the same ten attributes, then clauses on attributes of their own."""
    rng = np.random.default_rng(1)
    low, length = rng.integers(0, 500, (common, 10)), rng.integers(100, 500, (common, 10))
    dense = [
        " and ".join(f"c{column} between {first} and {first + more}" for column, (first, more) in enumerate(row))
        for row in np.stack([low, length], axis=2).tolist()
    ]
    return dense + [f"r{number} = {number % 7} and c1 > 500" for number in range(rare)]


@pytest.fixture(scope="module")
def mixed() -> tuple[list[str], ClauseTable, Vocabulary, Segment]:
    expressions, vocabulary = texts(4500, 300), Vocabulary()
    table = table_of(expressions, vocabulary)
    with pytest.MonkeyPatch.context() as patched:
        prefer_bitmaps(patched)
        return expressions, table, vocabulary, choose_segment(ENGINES, table, vocabulary, model=MODEL)


def events(count: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(2)
    return [
        {
            **{f"c{column}": int(rng.integers(0, 1000)) for column in range(10)},
            **{f"r{number}": int(rng.integers(0, 7)) for number in rng.choice(300, 20).tolist()},
        }
        for _ in range(count)
    ]


def test_rare_attributes_do_not_keep_the_others_from_bitmaps(mixed: Any) -> None:
    expressions, _, _, segment = mixed
    assert isinstance(segment, MixedSegment)
    assert [len(part) for part in segment.parts] == [4500, 300]
    assert sorted(segment.owners.tolist()) == list(range(len(expressions)))


@pytest.mark.parametrize(("common", "rare"), [(FEWEST_APART + 400, 0), (0, FEWEST_APART + 400)])
def test_what_is_of_one_kind_is_not_cut(common: int, rare: int) -> None:
    vocabulary = Vocabulary()
    table = table_of(texts(common, rare), vocabulary)
    assert not isinstance(choose_segment(ENGINES, table, vocabulary, model=MODEL), MixedSegment)


def test_matches(mixed: Any) -> None:
    _, table, vocabulary, segment = mixed
    whole = PivotSegment(table, vocabulary)
    for size in (1, 30, 300):
        batch = from_dicts(events(size))
        found = matched(segment, batch)
        assert found == matched(whole, batch)  # type: ignore[arg-type]
        assert size == 1 or any(owner >= 4500 for owners in found for owner in owners)


def test_its_table_has_all_clauses_again(mixed: Any) -> None:
    _, _, vocabulary, segment = mixed
    batch = from_dicts(events(30))
    assert matched(PivotSegment(segment.table(), vocabulary), batch) == matched(segment, batch)  # type: ignore[arg-type]


def test_its_table_has_chosen_clauses_in_their_order(mixed: Any) -> None:
    _, _, _, segment = mixed
    chosen = np.random.default_rng(3).permutation(len(segment))[:500]
    whole, table = segment.table(), segment.table(chosen)
    assert table.owners[: table.count].tolist() == segment.owners[chosen].tolist()
    taken = whole.take(chosen)
    assert np.diff(table.offsets).tolist() == np.diff(taken.offsets).tolist()
    assert table.tests[: table.test_count].tolist() == taken.tests[: taken.test_count].tolist()


def test_sets_patterns_and_absence() -> None:
    """Whatever the cut, and also through `table`, which gives sets new numbers."""
    vocabulary = Vocabulary()
    table = table_of(EXPRESSIONS, vocabulary)
    first = np.arange(table.count) % 3 == 0
    parts = [table.take(np.flatnonzero(first)), table.take(np.flatnonzero(~first))]
    segment = MixedSegment([PivotSegment(parts[0], vocabulary), ReinSegment(parts[1], vocabulary)])
    scan = MatchIndex(engine="scan")
    scan.add_many(range(len(EXPRESSIONS)), EXPRESSIONS, atomic=True)
    batch = mixed_events(np.random.default_rng(4), 200)
    expected = scan.match_many(batch)
    again = PivotSegment(segment.table(), vocabulary)
    for each in (segment, again):
        found = [sorted(set(owners)) for owners in matched(each, batch)]  # type: ignore[arg-type]
        assert found == [sorted(expected[event]) for event in range(200)]


def test_the_plan_adds_up(mixed: Any) -> None:
    _, _, _, segment = mixed
    batch = from_dicts(events(1))
    plan = segment.explain(batch)
    assert plan.clauses == plan.partitions.clauses_visited + plan.partitions.clauses_skipped == len(segment)
    assert plan.matches == len(segment.match(batch).slots) == sum(pipeline.matches for pipeline in plan.pipelines)
    assert plan.engine.split(" + ") == [part.explain(batch).engine for part in segment.parts]


def test_which_clauses_are_common() -> None:
    vocabulary = Vocabulary()
    table = table_of(["a = 1"] * 98 + ["a = 1 and b = 2", "true"], vocabulary)
    common = on_common_attributes(table, 5)
    assert common.tolist() == [True] * 98 + [False, True]
    assert on_common_attributes(table, 0).tolist() == [False] * 99 + [True]
    assert on_common_attributes(table_of(["true"], vocabulary), 5).tolist() == [True]
