"""DEXIN against the codes themselves, with and without caches, by either method alone and by any plan. Tables are those of test_rein."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.event_codes import EventCodes, encode_events
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.papers.coded_segment import array_bytes
from ray_pubsub.engines.papers.dexin import DexinSegment
from ray_pubsub.engines.papers.dexin_plan import Plan
from ray_pubsub.model.dict_events import from_dicts
from tests.unit.engines.test_rein import (
    BLOCKS,
    CASES,
    SCENES,
    Scene,
    brute_force,
    case_answers,
    events_of,
    found_by,
    split,
    table_of,
)

OPTIONS: dict[str, dict[str, Any]] = {
    "caches": {},
    "plain": {"cache": 0},
    "many caches": {"cache": 1_000},
    "exclusive only": {"exclusive_only": True},
    "plain exclusive only": {"cache": 0, "exclusive_only": True},
    "inclusive only": {"inclusive_only": True},
    "as published": {"cache": 0, "paper_costs": True},
}
PAPER = Scene(clauses=2_000, columns=5, tests=(5, 5), values=10_000, carried=1.0)


def built(scene: Scene, seed: int, **options: Any) -> tuple[DexinSegment, EventCodes]:
    table, vocabulary = table_of(scene, seed)
    segment = DexinSegment(table, vocabulary, **options)
    return segment, encode_events(events_of(scene, seed), segment.coded.space, vocabulary)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
@pytest.mark.parametrize("name", SCENES)
def test_equals_brute_force(name: str, block: int, options: dict[str, Any]) -> None:
    segment, codes = built(SCENES[name], list(SCENES).index(name), block=block, **options)
    assert found_by(segment, codes) == brute_force(segment, codes)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_contract(options: dict[str, Any]) -> None:
    def make(table: ClauseTable, vocabulary: Vocabulary) -> DexinSegment:
        return DexinSegment(table, vocabulary, **options)

    for case in CASES:
        found = case_answers(make, case["subscriptions"], [item["event"] for item in case["events"]])
        assert found in (None, [item["matches"] for item in case["events"]]), case["name"]


@pytest.mark.parametrize("cache", [0, 64])
def test_plans_never_change_results(cache: int) -> None:
    segment, codes = built(PAPER, 1, cache=cache, block=900)
    expected = brute_force(segment, codes)
    events, columns = len(codes.offsets) - 1, segment.coded.space.columns
    random = np.random.default_rng(2)
    for exclusive in range(columns + 1):
        order = random.permuted(np.tile(np.arange(columns), (events, 1)), axis=1)
        offsets = np.zeros(events + 1, np.int64)
        out = np.empty(8, np.int32)
        out = segment._perform(Plan(order, np.full(events, exclusive)), codes, 0, offsets, out)
        assert split(offsets, out[: offsets[-1]]) == expected


def test_every_cache_is_the_state_at_its_code() -> None:
    """Every value of a column, so that every cache is replayed in both directions, from up to half a stride away."""
    scene = Scene(clauses=1_000, columns=1, tests=(1, 1), values=300)
    table, vocabulary = table_of(scene, 9)
    segment = DexinSegment(table, vocabulary, cache=16, exclusive_only=True)
    caches = segment._index.caches
    assert len(caches.low) >= 10
    assert np.all(np.diff(caches.low) + np.diff(caches.high) >= 0)
    every = from_dicts([{"a0": value / 2} for value in range(-2, 602)])
    codes = encode_events(every, segment.coded.space, vocabulary)
    assert found_by(segment, codes) == brute_force(segment, codes)


def test_equal_boundaries_share_a_cache() -> None:
    """A column of few values has few states, however many boundaries."""
    segment, _ = built(Scene(clauses=2_000, columns=1, tests=(1, 1), values=2), 4)
    assert len(segment._index.caches.low) > 20
    assert len(np.unique(segment._index.caches.word)) < 10


def test_rates_are_near_the_truth() -> None:
    """Formula (3) from counters, against counting: wrong by at most half of the bounds in the value's own slots."""
    segment, codes = built(PAPER, 6)
    coded = segment.coded
    column, code = codes.column, codes.code
    slot = segment._grid.first[column] + (code >> segment._grid.shift[column])
    estimated = segment._excluded[slot]
    doubtful = sum(np.diff(bounds.starts)[slot] for bounds in segment._index.lists[:2]) / len(segment)
    counted = [
        ((coded.low[coded.column == place] > value) | (coded.high[coded.column == place] < value)).sum() / len(segment)
        for place, value in zip(column.tolist(), code.tolist(), strict=True)
    ]
    assert (np.abs(estimated - counted) <= doubtful / 2 + 1e-12).all()
    assert np.abs(estimated - counted).mean() < 0.01


def test_the_plan_starts_with_the_most_selective_attribute() -> None:
    table, vocabulary = ClauseTable.empty(), Vocabulary()
    names = [vocabulary.attributes.number(name) for name in ("wide", "narrow")]
    for owner in range(1_000):
        wide, narrow = ((names[0], 0, 0, 0, 1, 0, 0.0, 900, 0.0), (names[1], 0, 0, 0, 1, owner, 0.0, owner + 3, 0.0))
        table.append(owner, [wide, narrow])
    segment = DexinSegment(table, vocabulary)
    events = from_dicts([{"wide": 5, "narrow": 500}, {"narrow": 500}])
    plan = segment._plan(encode_events(events, segment.coded.space, vocabulary), 0, 2)
    assert plan.order[:, 0].tolist() == [1, 0]
    assert plan.exclusive.tolist() == [1, 1]
    assert split(*segment.match(events)) == [[497, 498, 499, 500], []]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_clauses_without_tests(options: dict[str, Any]) -> None:
    """They always match; the output grows in the middle of a batch, and every event is answered once."""
    for count in (0, 500):
        table = ClauseTable.empty()
        for owner in range(count):
            table.append(owner, [])
        segment = DexinSegment(table, Vocabulary(), block=200, **options)
        assert split(*segment.match(from_dicts([{"a": 1}] * 30))) == [list(range(count))] * 30


def test_threads_do_not_share_scratch() -> None:
    scene = SCENES["dense"]
    table, vocabulary = table_of(scene, 5)
    segment = DexinSegment(table, vocabulary, block=300)
    batches = [encode_events(events_of(scene, seed), segment.coded.space, vocabulary) for seed in range(4)]
    expected = [brute_force(segment, codes) for codes in batches]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(5):
            assert list(threads.map(lambda codes: found_by(segment, codes), batches)) == expected


def test_memory_follows_the_tests() -> None:
    """Caches too: a list of few boundaries has none."""
    segment, _ = built(SCENES["sparse"], 3)
    assert len(segment._index.caches.bits) == 0
    assert array_bytes(segment._index) < 24 * segment.coded.offsets[-1] + 100 * segment.coded.space.columns
    dense, _ = built(Scene(clauses=4_000, tests=(6, 6)), 3)
    assert dense._index.caches.bits.nbytes < 2 * 64 / 8 * dense.coded.offsets[-1]
