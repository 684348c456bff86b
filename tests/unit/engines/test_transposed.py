"""The transposed kernel against a comparison of every event with every clause, and behind a dense segment against single events."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ray_pubsub import MatchIndex
from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.engines.dense import transposed
from ray_pubsub.engines.dense.segment import FEWEST_TRANSPOSED, DenseSegment
from ray_pubsub.engines.dense.transposed import TransposedMasks
from ray_pubsub.engines.selection import segment_choice
from ray_pubsub.engines.selection.cost_model import CostModel
from ray_pubsub.engines.selection.machine import TYPICAL
from ray_pubsub.kernels.dense.bitmaps import build_rows
from ray_pubsub.kernels.dense.clustering import (
    FREE_HIGH,
    FREE_LOW,
    cluster,
    code_bounds,
    largest_rest,
    least_of_codes,
    quantile_edges,
)
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.workspace import Workspace
from tests.inside_of_index import segmented

Bounds = tuple[NDArray[np.int32], NDArray[np.int32]]
BATCHES = [0, 1, 63, 64, 65, 1000, 1025]


def masks_of(low: NDArray[np.int32], high: NDArray[np.int32]) -> TransposedMasks:
    """Low and high by [column, clause]; clustered, as a dense segment has them."""
    columns, count = low.shape
    edges = quantile_edges(low, high, 1)
    words = np.zeros((count, -(-2 * columns // 8)), np.uint64)
    codes, order = words.view(np.uint8), np.arange(count, dtype=np.int32)
    code_bounds(low, high, edges, codes)
    cluster(codes, words, order, columns, 64)
    rows = np.zeros((count, -(-(2 * columns + 4) // 32) * 32), np.uint8)
    narrow = largest_rest(edges, np.where(high < FREE_HIGH, np.maximum(low, high), low).max(axis=1)) < 2**16
    exact = np.empty((count, 2 * columns), np.uint16 if narrow else np.int32)
    least = least_of_codes(edges if narrow else np.zeros_like(edges))
    build_rows(codes, order, np.arange(count, dtype=np.int32), low, high, least, rows, exact)
    return TransposedMasks(rows, exact, edges, least)


def codes_of(values: NDArray[np.int32]) -> EventCodes:
    """Values by [event, column]; FREE_LOW is absent."""
    event, column = np.nonzero(values != FREE_LOW)
    offsets = np.searchsorted(event, np.arange(len(values) + 1)).astype(np.int64)
    return EventCodes(offsets, column.astype(np.int32), values[event, column])


def brute_force(bounds: Bounds, values: NDArray[np.int32]) -> list[list[int]]:
    low, high = bounds
    return [
        np.flatnonzero(((low <= value[:, None]) & (value[:, None] <= high)).all(axis=0)).tolist() for value in values
    ]


def assert_same(bounds: Bounds, values: NDArray[np.int32]) -> int:
    offsets, numbers = masks_of(*bounds).match(codes_of(values))
    assert (offsets.dtype, numbers.dtype) == (np.int64, np.int64)
    assert (len(offsets), offsets[0], offsets[-1]) == (len(values) + 1, 0, len(numbers))
    found = [sorted(numbers[start:end].tolist()) for start, end in pairwise(offsets)]
    assert found == brute_force(bounds, values)
    return len(numbers)


def draw(random: np.random.Generator, shape: tuple[int, ...], top: int, skewed: bool) -> NDArray[np.int32]:
    """Codes 1 … top; skewed ones crowd near 1."""
    share = random.random(shape) ** 12 if skewed else random.random(shape)
    return (1 + share * top).astype(np.int32).clip(1, top)


def random_bounds(
    random: np.random.Generator,
    columns: int,
    count: int,
    *,
    top: int = 1_000_000,
    skewed: bool = False,
    free: float = 0.3,
) -> Bounds:
    """Of every form a clause can have: two bounds, one, equality, presence, `is null`, null or small, none."""
    ends = np.sort(draw(random, (2, columns, count), top, skewed), axis=0)
    wide = random.random((columns, count)) < 0.7
    low = np.where(wide, np.maximum(1, ends[0] // 4), ends[0])
    high = np.where(wide, np.minimum(top, ends[1] + top // 4), ends[1])
    form = random.random((columns, count))
    low = np.where((form < 0.2) | ((form > 0.9) & (form < 0.93)), FREE_LOW + 1, low)
    high = np.where(((form > 0.15) & (form < 0.4)) | (form > 0.97), FREE_HIGH, high)
    is_null, or_null = (form > 0.93) & (form < 0.94), (form > 0.94) & (form < 0.97)
    low, high = np.where(is_null | or_null, FREE_LOW, low), np.where(is_null, 0, high)
    low = np.where((form > 0.4) & (form < 0.42), high, low)
    unconstrained = random.random((columns, count)) < free
    low, high = np.where(unconstrained, FREE_LOW, low), np.where(unconstrained, FREE_HIGH, high)
    return low.astype(np.int32), high.astype(np.int32)


def random_values(
    random: np.random.Generator,
    bounds: Bounds,
    events: int,
    *,
    absent: float = 0.1,
    top: int = 1_000_000,
    skewed: bool = False,
) -> NDArray[np.int32]:
    """Half of them on a bound or one beside it."""
    columns, count = bounds[0].shape
    values = draw(random, (events, columns), top, skewed)
    side, clause = random.integers(0, 2, values.shape), random.integers(0, count, values.shape)
    bound = np.stack(bounds)[side, np.arange(columns), clause].astype(np.int64) + random.integers(-1, 2, values.shape)
    values = np.where((random.random(values.shape) < 0.5) & (bound >= 1) & (bound <= top), bound, values)
    return np.where(random.random(values.shape) < absent, FREE_LOW, values).astype(np.int32)


@pytest.mark.parametrize("skewed", [False, True], ids=["even", "skewed"])
@pytest.mark.parametrize("columns", [1, 2, 3, 7, 14, 15, 31, 40])
def test_any_number_of_columns(columns: int, skewed: bool) -> None:
    random = np.random.default_rng(columns)
    free = 0.3 if columns < 10 else 1 - 3 / columns
    bounds = random_bounds(random, columns, 2_500, skewed=skewed, free=free)
    assert assert_same(bounds, random_values(random, bounds, 200, skewed=skewed)) > 200


@pytest.mark.parametrize("events", BATCHES)
def test_any_size_of_batch(events: int) -> None:
    random = np.random.default_rng(events)
    bounds = random_bounds(random, 6, 3_000)
    assert_same(bounds, random_values(random, bounds, events))


@pytest.mark.parametrize("count", [1, 2, 7, 63, 64, 65, 255, 257, 4_095, 4_096, 4_097, 8_193, 17_001])
def test_any_number_of_clauses(count: int) -> None:
    random = np.random.default_rng(count)
    bounds = random_bounds(random, 5, count)
    assert_same(bounds, random_values(random, bounds, 130))


@pytest.mark.parametrize("top", [1, 2, 3, 20, 255])
def test_ties(top: int) -> None:
    random = np.random.default_rng(top)
    bounds = random_bounds(random, 5, 3_000, top=top)
    assert assert_same(bounds, random_values(random, bounds, 300, top=top)) > 0


@pytest.mark.parametrize("absent", [0.0, 0.5, 0.95, 1.0])
def test_absence(absent: float) -> None:
    random = np.random.default_rng(int(100 * absent))
    bounds = random_bounds(random, 4, 3_000)
    assert assert_same(bounds, random_values(random, bounds, 300, absent=absent)) > 0


def test_absence_by_hand() -> None:
    """Columns: is null; null or at most 5; present; at least 5."""
    low = np.array([[FREE_LOW], [FREE_LOW], [FREE_LOW + 1], [5]], np.int32)
    high = np.array([[0], [5], [FREE_HIGH], [FREE_HIGH]], np.int32)
    no = FREE_LOW
    values = [[no, no, 1, 5], [no, 5, 9, 9], [1, 5, 9, 9], [no, 6, 9, 9], [no, 5, no, 9], [no, 5, 9, no], [no, 5, 9, 4]]
    offsets, _ = masks_of(low, high).match(codes_of(np.array(values, np.int32)))
    assert np.diff(offsets).tolist() == [1, 1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("most", [2**30, 2**31 - 2])
def test_large_codes(most: int) -> None:
    random = np.random.default_rng(3)
    bounds = random_bounds(random, 3, 2_000, top=most)
    assert assert_same(bounds, random_values(random, bounds, 200, top=most)) > 0


@pytest.mark.parametrize("events", [70, 1_025])
def test_everything_matches(events: int) -> None:
    """Pairs that fill their room many times, in the midst of groups."""
    free = np.full((3, 5_000), FREE_LOW, np.int32), np.full((3, 5_000), FREE_HIGH, np.int32)
    values = draw(np.random.default_rng(0), (events, 3), 100, False)
    for bounds in (free, (np.ones_like(free[0]), np.full_like(free[0], 100))):
        offsets, numbers = masks_of(*bounds).match(codes_of(values))
        assert np.diff(offsets).tolist() == [5_000] * events
        assert (np.sort(numbers.reshape(events, -1), axis=1) == np.arange(5_000)).all()


def test_a_clause_without_tests_among_others() -> None:
    random = np.random.default_rng(8)
    low, high = random_bounds(random, 4, 5_000, free=0)
    low[:, ::100], high[:, ::100] = FREE_LOW, FREE_HIGH
    assert assert_same((low, high), random_values(random, (low, high), 200)) >= 200 * 50


def test_nothing_matches() -> None:
    low = np.full((3, 5_000), 7, np.int32)
    assert assert_same((low, low - 2), np.full((300, 3), 6, np.int32)) == 0
    assert assert_same((low, low), np.full((300, 3), 8, np.int32)) == 0
    assert assert_same((low, low), np.full((300, 3), FREE_LOW, np.int32)) == 0


def test_many_runs_of_few_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transposed, "PAIRS", 1)
    fresh = Workspace()
    monkeypatch.setattr(transposed, "workspace", lambda: fresh)
    random = np.random.default_rng(4)
    bounds = random_bounds(random, 2, 9_000, free=0.8)
    assert assert_same(bounds, random_values(random, bounds, 600)) > 1_000_000


# ------------------------------------------------------------------------------------------------------- dense segments


def random_expression(random: Random) -> str:
    """Few different sets, or a segment would not be dense."""
    tests = []
    for name in random.sample("abcd", random.randint(2, 4)):
        low = random.randint(0, 60)
        forms = [f"{name} <= {low}", f"{name} > {low}", f"{name} between {low} and {low + 20}.5", f"{name} = {low}"]
        rare = [
            f"{name} is null",
            f"({name} is null or {name} > 20)",
            f"{name} not in (3, 30)",
            f"{name} = 's{low % 9}'",
        ]
        tests.append(random.choice([*forms, *forms, *rare, f"{name} like 's%'"]))
    return " and ".join(tests)


def random_event(random: Random) -> dict[str, Any]:
    values = [random.randint(0, 60), random.randint(0, 240) / 4, f"s{random.randint(0, 9)}", None]
    return {name: random.choice([values[0], values[1], *values]) for name in "abcd" if random.random() < 0.9}


def dense_segments(index: MatchIndex) -> list[DenseSegment]:
    blocks = [
        getattr(block, "_inside", block) for block in segmented(index).snapshot.blocks
    ]  # inside: of equal clauses one
    found = [block for block in blocks if isinstance(block, DenseSegment)]
    assert found
    return found


@pytest.fixture(scope="module", autouse=True)
def only_dense() -> Iterator[None]:
    """These tests are about dense segments, whatever the cost model thinks of the clauses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_choice, "_model_of", lambda engines, _: CostModel({"dense": engines["dense"]}, TYPICAL))
        yield


@pytest.fixture(scope="module")
def index(only_dense: None) -> MatchIndex:
    random = Random(5)
    index = MatchIndex()
    index.add_many(range(9_000), [random_expression(random) for _ in range(9_000)])
    return index


def test_a_batch_is_its_events(index: MatchIndex) -> None:
    random = Random(6)
    batch = [random_event(random) for _ in range(1_100)]
    (segment,) = dense_segments(index)
    before = segment.nbytes
    result = index.match_many(batch)
    assert before < segment.nbytes < before + 60 * len(segment)
    assert len(result) > 10_000
    for place in range(0, len(batch), 3):
        assert sorted(result[place]) == sorted(index.match(batch[place]))


@pytest.mark.parametrize("size", [FEWEST_TRANSPOSED - 1, FEWEST_TRANSPOSED, FEWEST_TRANSPOSED + 1])
def test_around_the_size_that_decides(index: MatchIndex, size: int) -> None:
    random = Random(size)
    batch = [random_event(random) for _ in range(size)]
    result = index.match_many(batch)
    assert [sorted(result[place]) for place in range(size)] == [sorted(index.match(event)) for event in batch]


def test_threads_that_come_first_together() -> None:
    random = Random(9)
    index = MatchIndex()
    index.add_many(range(5_000), [random_expression(random) for _ in range(5_000)])
    (segment,) = dense_segments(index)
    batch = from_dicts([random_event(random) for _ in range(300)])
    with ThreadPoolExecutor(4) as pool:
        hits = [task.result() for task in [pool.submit(segment.match, batch) for _ in range(8)]]
    for other in hits[1:]:
        assert (other.offsets == hits[0].offsets).all()
        assert (other.slots == hits[0].slots).all()
