"""Single events in a dense segment against a comparison of every bound: on bounds and beside them, in first and last buckets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.dense.segment import DenseSegment
from ray_pubsub.kernels.dense.check import TILE
from ray_pubsub.model.dict_events import from_dicts
from tests.unit.engines.coded_tables import table_of

LEAST, MOST, ABSENT = -(10**12), 10**12, -(10**13)
Intervals = tuple[NDArray[np.int64], NDArray[np.int64]]


class Clauses:
    """Intervals by [clause, column] as the segment's clauses; LEAST and MOST are no bound, an interval without bounds no test."""

    def __init__(self, intervals: Intervals, owners: NDArray[np.int64] | None = None) -> None:
        self.low, self.high = intervals
        self.owners = np.arange(len(self.low)) if owners is None else owners
        self.vocabulary = Vocabulary()
        table = table_of([text_of(low, high) for low, high in zip(self.low, self.high, strict=True)], self.vocabulary)
        table.owners = self.owners.copy()
        self.segment = DenseSegment(table, self.vocabulary)

    def expected(self, value: NDArray[np.int64]) -> list[int]:
        inside = (self.low <= value) & (value <= self.high)
        free = (self.low == LEAST) & (self.high == MOST)
        return sorted(self.owners[(inside | free).all(axis=1)].tolist())


def text_of(low: NDArray[np.int64], high: NDArray[np.int64]) -> str:
    tests = []
    for column, (least, most) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        tests += [f"a{column} >= {least}"] * (least != LEAST) + [f"a{column} <= {most}"] * (most != MOST)
    return " and ".join(tests)


def event_of(value: NDArray[np.int64]) -> dict[str, int]:
    return {f"a{column}": number for column, number in enumerate(value.tolist()) if number != ABSENT}


def assert_same(clauses: Clauses, values: NDArray[np.int64], segment: DenseSegment | None = None) -> int:
    """One by one, and a few at once; returns the most matches an event has."""
    segment = segment or clauses.segment
    expected = [clauses.expected(value) for value in values]
    for value, owners in zip(values, expected, strict=True):
        hits = segment.match(from_dicts([event_of(value)]))
        assert hits.slots.dtype == np.int64
        assert sorted(hits.slots.tolist()) == owners
    hits = segment.match(from_dicts([event_of(value) for value in values]))
    assert [sorted(part.tolist()) for part in np.split(hits.slots, hits.offsets[1:-1])] == expected
    return max(map(len, expected))


def random_intervals(random: np.random.Generator, columns: int, count: int, top: int, free: float) -> Intervals:
    """Wide and narrow ones, equalities, one-sided ones and none at all; every clause tests something."""
    ends = np.sort(random.integers(0, top + 1, (2, count, columns)), axis=0)
    wide = random.random((count, columns)) < 0.7
    low = np.where(wide, ends[0] // 4, ends[0])
    high = np.where(wide, np.minimum(top, ends[1] + top // 4), ends[1])
    form = random.random((count, columns))
    low, high = np.where(form < 0.1, LEAST, low), np.where(form > 0.9, MOST, high)
    low = np.where((form > 0.4) & (form < 0.42), high, low)
    unconstrained = random.random((count, columns)) < free
    unconstrained[:, 0] = False
    return np.where(unconstrained, LEAST, low), np.where(unconstrained, MOST, high)


def values_on_bounds(
    random: np.random.Generator, intervals: Intervals, events: int, top: int, absent: float = 0.05
) -> NDArray[np.int64]:
    """Half on a bound or beside it: edges of buckets are bounds. Some below the least bound, some above the largest, some in the middle."""
    count, columns = intervals[0].shape
    shape = (events, columns)
    values = random.integers(0, top + 1, shape)
    bound = np.stack(intervals)[random.integers(0, 2, shape), random.integers(0, count, shape), np.arange(columns)]
    on_bound = (random.random(shape) < 0.5) & (np.abs(bound) < MOST)
    values = np.where(on_bound, bound + random.integers(-1, 2, shape), values)
    values[::5] = top // 2
    values[1::5, 0], values[2::5, 0] = -5, top + 5
    return np.where(random.random(shape) < absent, ABSENT, values)


@pytest.mark.parametrize("columns", [1, 2, 10, 14, 15, 16, 17, 33])
@pytest.mark.parametrize("top", [3, 200, 50_000], ids=["ties", "a bound a code", "many bounds a code"])
def test_any_number_of_columns(columns: int, top: int) -> None:
    random = np.random.default_rng([columns, top])
    intervals = random_intervals(random, columns, 600, top, free=0.2 if columns < 5 else 1 - 3 / columns)
    assert assert_same(Clauses(intervals), values_on_bounds(random, intervals, 60, top)) > 10


@pytest.mark.parametrize("count", [1, 63, 64, 65, 511, 512, 513, 4_100])
def test_any_number_of_clauses(count: int) -> None:
    random = np.random.default_rng(count)
    intervals = random_intervals(random, 3, count, 10_000, free=0.3)
    assert_same(Clauses(intervals), values_on_bounds(random, intervals, 40, 10_000))


@pytest.mark.parametrize(("top", "kind"), [(1_000_000, np.uint16), (20_000_000, np.int32)])
def test_bounds_of_two_and_of_four_bytes(top: int, kind: Any) -> None:
    random = np.random.default_rng(7)
    intervals = random_intervals(random, 4, 2_000, top, free=0.2)
    clauses = Clauses(intervals)
    assert clauses.segment._exact.dtype == kind
    assert assert_same(clauses, values_on_bounds(random, intervals, 80, top)) > 10


def test_more_matches_than_a_tile_and_most_of_them_in_doubt() -> None:
    """All lows in one bucket and all highs in another, so that nothing but the exact bounds decides."""
    random = np.random.default_rng(3)
    count, columns = 3 * TILE, 3
    intervals = 100_000 + random.integers(0, 50, (count, columns)), 900_000 + random.integers(0, 50, (count, columns))
    values = random.integers(100_000, 100_050, (10, columns))
    values[5:] += 800_000
    clauses = Clauses(intervals)
    assert assert_same(clauses, values) > TILE / 4
    assert assert_same(clauses, np.full((2, columns), 500_000)) == count


@pytest.mark.parametrize("absent", [0.5, 1.0])
def test_absence(absent: float) -> None:
    random = np.random.default_rng(5)
    intervals = random_intervals(random, 4, 2_000, 100, free=0.6)
    assert_same(Clauses(intervals), values_on_bounds(random, intervals, 50, 100, absent))


def test_absence_by_hand() -> None:
    vocabulary = Vocabulary()
    texts = ["a is null", "a is null or a <= 5", "a is not null", "a >= 5", "b >= 1 and a is null"]
    segment = DenseSegment(table_of(texts, vocabulary), vocabulary)
    events: list[tuple[dict[str, int], set[int]]] = [
        ({}, {0, 1}), ({"a": 5}, {1, 2, 3}), ({"a": 4}, {1, 2}), ({"a": 6}, {2, 3}), ({"b": 1}, {0, 1, 4}), ({"b": 0}, {0, 1})
    ]  # fmt: skip
    for event, owners in events:
        assert set(segment.match(from_dicts([event])).slots.tolist()) == owners


@pytest.mark.parametrize("first_slot", [0, 2**31 - 1_500, 2**31, 2**40])
def test_slots_of_any_size(first_slot: int) -> None:
    random = np.random.default_rng(11)
    intervals = random_intervals(random, 3, 1_500, 1_000, free=0.3)
    clauses = Clauses(intervals, first_slot + random.permutation(1_500))
    assert sorted(clauses.segment.owners.tolist()) == sorted(clauses.owners.tolist())
    assert assert_same(clauses, values_on_bounds(random, intervals, 30, 1_000)) > 10


@pytest.mark.parametrize("first_slot", [0, 2**31])
@pytest.mark.parametrize("top", [1_000, 20_000_000])
def test_clauses_are_read_back(first_slot: int, top: int) -> None:
    random = np.random.default_rng(13)
    intervals = random_intervals(random, 4, 1_500, top, free=0.3)
    clauses = Clauses(intervals, first_slot + np.arange(1_500))
    values = values_on_bounds(random, intervals, 30, top)
    again = DenseSegment(clauses.segment.table(), clauses.vocabulary)
    assert_same(clauses, values, again)
    chosen = np.flatnonzero(random.random(1_500) < 0.3)
    table: ClauseTable = clauses.segment.table(chosen)
    kept = clauses.segment.owners[chosen] - first_slot
    assert (table.owners[: table.count] - first_slot).tolist() == kept.tolist()
    part = Clauses((clauses.low[kept], clauses.high[kept]), first_slot + kept)
    assert_same(part, values, DenseSegment(table, clauses.vocabulary))
