"""Gaps of sets, `!=`, `not in` and `not between` prune in the papers' engines: few clauses are left before anything is compared."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.papers.coded_segment import CodedSegment
from ray_pubsub.engines.papers.dexin import DexinSegment
from ray_pubsub.engines.papers.gap_lists import gap_toggles, words_of
from ray_pubsub.engines.papers.gem import GemSegment
from ray_pubsub.engines.papers.opindex import OpIndexSegment
from ray_pubsub.engines.papers.rein import ReinSegment
from ray_pubsub.kernels.papers.gap_toggles import exclude_gaps
from ray_pubsub.model.dict_events import from_dicts
from tests.unit.engines.coded_tables import table_of
from tests.unit.engines.pivot.test_pivot_lists import event, rule

ENGINES: list[Any] = [ReinSegment, DexinSegment, GemSegment]


def left_by_gaps(segment: CodedSegment, given: dict[str, Any]) -> int:
    """Clauses left by the toggles of all blocks."""
    plan = segment.explain(from_dicts([given]))
    steps = [step for pipeline in plan.pipelines for step in pipeline.steps if step.method == "gaps toggled"]
    assert steps, "gaps are not asked"
    return sum(step.actual for step in steps)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a in (0, {0}, 9999)", 1),
        ("a not in (500, {1})", 0),
        ("a != 500", 0),
        ("a not between 400 and {1}", 0),
        ("a not in ({1}, {2})", 600),
    ],
)
def test_an_event_inside_the_hulls_leaves_few_clauses(engine: Any, text: str, left: int) -> None:
    vocabulary = Vocabulary()
    texts = [text.format(number + 1, number + 1000, number + 5000) for number in range(600)]
    segment = engine(table_of(texts, vocabulary), vocabulary, block=256)
    assert left_by_gaps(segment, {"a": 500}) == left == len(segment.match(from_dicts([{"a": 500}])).slots)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("values", [3, 60])
def test_every_kind_of_test_against_the_scan(engine: Any, values: int) -> None:
    random, vocabulary = Random(values), Vocabulary()
    texts = [rule(random, values) for _ in range(300)]
    segment = engine(table_of(texts, vocabulary), vocabulary, block=128)
    scan = MatchIndex("scan")
    scan.add_many(range(len(texts)), texts)
    events = [event(random, values) for _ in range(60)]
    expected = scan.match_many(events)
    hits = segment.match(from_dicts(events))
    for place in range(len(events)):
        found = sorted(set(hits.slots[hits.offsets[place] : hits.offsets[place + 1]].tolist()))
        assert found == sorted(expected[place])


def test_the_toggles_of_every_code_against_the_pieces() -> None:
    """Whatever cache is the nearest."""
    random, vocabulary = Random(4), Vocabulary()
    texts = [f"a in ({', '.join(map(str, random.sample(range(50), random.randint(2, 9))))})" for _ in range(200)]
    coded = ReinSegment(table_of(texts, vocabulary), vocabulary).coded
    assert coded.pieces is not None
    block = 150
    toggles = gap_toggles(coded, np.arange(200), block)
    assert len(toggles.bits) > 2 * words_of(block), "there are caches on the way"
    for code in range(1, int(coded.space.top[0]) + 1):
        for part, size in ((0, 150), (1, 50)):
            alive, spare = np.full(words_of(block), ~np.uint64(0)), np.empty(words_of(block), np.uint64)
            exclude_gaps(toggles, np.array([code], np.int32), part, words_of(size), spare, alive)
            bits = np.unpackbits(alive.view(np.uint8), bitorder="little")[:size]
            for number in range(size):
                clause = part * block + number
                piece = coded.pieces[clause]
                inside = coded.low[clause] <= code <= coded.high[clause]
                if piece >= 0 and inside:
                    places = slice(*coded.piece_offsets[piece : piece + 2])
                    inside = ((coded.piece_low[places] <= code) & (code <= coded.piece_high[places])).any()
                    assert bits[number] == inside
                else:
                    assert bits[number]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_toggled_is_not_compared_again(engine: Any) -> None:
    """Unless a clause tests a column twice: then two flips may cancel out."""
    vocabulary = Vocabulary()
    texts = ["a not in (1, 5) and b != 3", "a in (2, 9)", "c > 4"]
    assert engine(table_of(texts, vocabulary), vocabulary)._gaps is None
    opindex = OpIndexSegment(table_of(texts, vocabulary), vocabulary)
    assert opindex._gaps is not None, "it prunes by hulls"
