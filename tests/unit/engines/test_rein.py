"""REIN's bucket lists against the codes themselves, one by one."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from ray_pubsub.columns.clause_compiler import Compiler
from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.event_codes import EventCodes, encode_events
from ray_pubsub.columns.test_records import Form, Side, TestRecord
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.explain.trace import ranges
from ray_pubsub.engines.papers.coded_segment import CodedSegment, array_bytes
from ray_pubsub.engines.papers.rein import ReinSegment
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.values import Kind
from ray_pubsub.settings import Limits

CASES = [
    case
    for name in ("cases.toml", "paper_cases.toml")
    for case in tomllib.loads((Path(__file__).parents[2] / "contract" / name).read_text())["case"]
]


class Scene(NamedTuple):
    """What a random table looks like."""

    clauses: int = 700
    columns: int = 6
    tests: tuple[int, int] = (0, 6)
    values: int = 40
    """Bounds and events have values 0 … values - 1: few make ties."""
    carried: float = 0.9
    """The part of the columns an event carries."""
    twice: bool = False
    """A clause may test a column twice."""
    skewed: bool = False
    """Most bounds lie at one end of the values."""


SCENES = {
    "dense": Scene(tests=(6, 6)),
    "few values": Scene(values=3),
    "many values": Scene(values=1_000_000),
    "skewed": Scene(values=1_000_000, tests=(4, 6), skewed=True),
    "absent": Scene(carried=0.4),
    "twice": Scene(tests=(2, 8), twice=True, values=12),
    "one column": Scene(columns=1, tests=(0, 1)),
    "sparse": Scene(columns=2_000, tests=(1, 5), carried=0.03, clauses=1_500),
    "one clause": Scene(clauses=1, tests=(1, 1)),
    "word and one": Scene(clauses=65, tests=(0, 2)),
}
BLOCKS = {"one block": 65_536, "three blocks": 300}


@cache
def table_of(scene: Scene, seed: int) -> tuple[ClauseTable, Vocabulary]:
    """Clauses of every sort of test: points, intervals open and closed, one-sided, absence allowed or asked for, holes."""
    random = np.random.default_rng(seed)
    vocabulary = Vocabulary()
    compiler, shapes = Compiler(vocabulary, Limits()), ShapeCache(Limits())
    for column in range(scene.columns):
        vocabulary.attributes.number(f"a{column}")

    def value() -> int:
        drawn = float(random.random()) ** (6 if scene.skewed else 1)
        return int(drawn * scene.values)

    def record(column: int) -> TestRecord:
        sort = random.integers(0, 12)
        low, high = sorted((value(), value()))
        if sort == 0:
            text = ["{0} is null", "{0} is null or {0} <= {1}", "{0} != {1}", "{0} is not null"][random.integers(0, 4)]
            return compiler.compile(shapes.parse(text.format(f"a{column}", low))).clauses[0][0]
        if sort <= 3:
            low = high
        sides = (Side.BEFORE, Side.AFTER) if low == high else (int(random.integers(0, 3)), int(random.integers(0, 3)))
        return (column, Form.INTERVAL, int(Kind.NUMBER), *sides, low, 0.0, high, 0.0)

    for owner in range(scene.clauses):
        wanted = int(random.integers(scene.tests[0], scene.tests[1] + 1))
        wanted = wanted if scene.twice else min(wanted, scene.columns)
        columns = random.choice(scene.columns, wanted, replace=scene.twice)
        compiler.table.append(owner, [record(int(column)) for column in columns])
    return compiler.table, vocabulary


def events_of(scene: Scene, seed: int, count: int = 40) -> EventBatch:
    random = np.random.default_rng(seed + 1_000)
    events = []
    for _ in range(count):
        carried = np.flatnonzero(random.random(scene.columns) < scene.carried)
        drawn = random.random(len(carried)) ** (6 if scene.skewed else 1) * scene.values
        # Halves fall between operands; -1 and `values` beyond them.
        values = np.rint(2 * drawn - 1) / 2 if scene.values < 100 else np.rint(drawn)
        events.append({f"a{column}": float(value) for column, value in zip(carried, values, strict=True)})
    return from_dicts([{}, *events])


def brute_force(segment: CodedSegment, codes: EventCodes) -> list[list[int]]:
    """Every test of every clause on every event."""
    coded = segment.coded
    count = len(coded.offsets) - 1
    clause = np.repeat(np.arange(count), np.diff(coded.offsets))
    found = []
    for event in range(len(codes.offsets) - 1):
        cells = slice(int(codes.offsets[event]), int(codes.offsets[event + 1]))
        values = np.zeros(coded.space.columns, np.int64)
        values[codes.column[cells]] = codes.code[cells]
        value = values[coded.column]
        fails = (value < coded.low) | (value > coded.high)
        if coded.pieces is not None:
            several = np.flatnonzero(coded.pieces >= 0)
            first, last = (coded.piece_offsets[coded.pieces[several] + end] for end in (0, 1))
            test, piece = np.repeat(several, last - first), ranges(first, last - first)
            inside = (coded.piece_low[piece] <= value[test]) & (value[test] <= coded.piece_high[piece])
            fails[several] |= np.bincount(test[inside], minlength=len(fails))[several] == 0
        failed = np.bincount(clause[fails], minlength=count)
        found.append(np.flatnonzero(failed == 0).tolist())
    return found


def found_by(segment: CodedSegment, codes: EventCodes) -> list[list[int]]:
    offsets, numbers = segment._match(codes)
    if segment._gaps is not None:
        segment._gaps.settle(codes, offsets, numbers)
    return split(offsets, numbers[: offsets[-1]])


def split(offsets: NDArray[np.int64], numbers: NDArray[Any]) -> list[list[int]]:
    assert len(numbers) == offsets[-1]
    return [sorted(part.tolist()) for part in np.split(numbers, offsets[1:-1])]


def case_answers(
    make: Callable[[ClauseTable, Vocabulary], CodedSegment], subscriptions: Mapping[str, str], events: Sequence[Any]
) -> list[list[str]] | None:
    """Ids per event, as MatchIndex would answer; None if clauses alone cannot tell."""
    vocabulary = Vocabulary()
    compiler, shapes = Compiler(vocabulary, Limits()), ShapeCache(Limits())
    names = list(subscriptions)
    for owner, text in enumerate(subscriptions.values()):
        compiled = compiler.compile(shapes.parse(text))
        if compiled.residual or compiled.conjunctive:
            return None
        for records in compiled.clauses:
            compiler.table.append(owner, records)
    hits = make(compiler.table, vocabulary).match(from_dicts(events))
    return [sorted({names[slot] for slot in found}) for found in split(*hits)]


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
@pytest.mark.parametrize("name", SCENES)
def test_equals_brute_force(name: str, block: int) -> None:
    scene, seed = SCENES[name], list(SCENES).index(name)
    table, vocabulary = table_of(scene, seed)
    segment = ReinSegment(table, vocabulary, block=block)
    codes = encode_events(events_of(scene, seed), segment.coded.space, vocabulary)
    expected = brute_force(segment, codes)
    assert found_by(segment, codes) == expected
    assert any(expected) or scene.clauses == 1


@pytest.mark.parametrize("buckets", [1, 2, 7, 100_000])
def test_any_number_of_buckets(buckets: int) -> None:
    scene = SCENES["many values"]
    table, vocabulary = table_of(scene, 77)
    segment = ReinSegment(table, vocabulary, buckets=buckets)
    codes = encode_events(events_of(scene, 77), segment.coded.space, vocabulary)
    assert found_by(segment, codes) == brute_force(segment, codes)


def test_table_one() -> None:
    """Section IV.E: of Table I's ten rectangles, s1 and s3 hold the point (3, 5)."""
    case = next(case for case in CASES if case["name"] == "rein table I")
    assert case_answers(ReinSegment, case["subscriptions"], [{"a1": 3, "a2": 5}]) == [["s1", "s3"]]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_contract(case: dict[str, Any]) -> None:
    found = case_answers(ReinSegment, case["subscriptions"], [item["event"] for item in case["events"]])
    assert found in (None, [item["matches"] for item in case["events"]])


def test_more_matches_than_room() -> None:
    """Clauses without tests always match; the output grows in the middle of a batch, and every event is answered once."""
    for count in (0, 500):
        table = ClauseTable.empty()
        for owner in range(count):
            table.append(owner, [])
        segment = ReinSegment(table, Vocabulary(), block=200)
        assert split(*segment.match(from_dicts([{"a": 1}] * 30))) == [list(range(count))] * 30


def test_threads_do_not_share_scratch() -> None:
    scene = SCENES["dense"]
    table, vocabulary = table_of(scene, 5)
    segment = ReinSegment(table, vocabulary, block=300)
    batches = [encode_events(events_of(scene, seed), segment.coded.space, vocabulary) for seed in range(4)]
    expected = [brute_force(segment, codes) for codes in batches]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(5):
            assert list(threads.map(lambda codes: found_by(segment, codes), batches)) == expected


def test_free_attributes_are_in_no_list() -> None:
    """Memory follows the tests, not columns times clauses."""
    scene = SCENES["sparse"]
    table, vocabulary = table_of(scene, 3)
    segment = ReinSegment(table, vocabulary)
    tests = table.test_count
    assert len(segment._index.lows.ids) <= tests
    assert len(segment._index.highs.ids) <= tests
    assert array_bytes(segment._index) < 12 * tests + 60 * scene.columns
