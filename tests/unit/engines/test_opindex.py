"""OpIndex: against every test one by one, and the facts of the paper."""

from __future__ import annotations

import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import KINDS
from ray_pubsub.columns.test_records import Form, Side
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.papers.opindex import OpIndexSegment
from ray_pubsub.kernels.papers.predicate_lists import OPERATORS
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.values import Kind
from tests.unit.engines.coded_tables import (
    EXPRESSIONS,
    expected,
    matched,
    mixed_events,
    random_events,
    random_table,
    table_of,
)

PAPER = tomllib.loads((Path(__file__).parents[2] / "contract" / "paper_cases.toml").read_text())
FACTS: dict[str, Any] = {fact["name"]: fact for fact in PAPER["fact"]}
CASES: dict[str, Any] = {case["name"]: case for case in PAPER["case"]}
TABLE_1 = CASES["opindex table 1"]
NAMES = list(TABLE_1["subscriptions"])

SHAPES = {  # clauses, columns, most tests of a clause, values
    "dense": (500, 4, 4, 1000),
    "sparse": (700, 60, 3, 50),
    "ties": (400, 3, 3, 4),
    "one value": (100, 2, 2, 1),
    "wide": (600, 2000, 8, 30),
}
OPTIONS = [{"segments": 1, "bits": 1}, {"segments": 2, "bits": 4}, {"segments": 7, "bits": 13}, {}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_random_intervals(shape: str, options: dict[str, Any]) -> None:
    count, columns, most, values = SHAPES[shape]
    rng = np.random.default_rng(len(shape))
    table, vocabulary = random_table(rng, count, columns, most, values)
    frequency = rng.random(columns - 1) if options else None
    segment = OpIndexSegment(table, vocabulary, frequency, **options)
    for carried in (columns, columns // 2):
        events = random_events(rng, 40, columns, min(carried, 200), values)
        assert matched(segment, events) == expected(segment, events, vocabulary)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_sets_kinds_patterns_and_absence(options: dict[str, Any]) -> None:
    rng, vocabulary = np.random.default_rng(1), Vocabulary()
    segment = OpIndexSegment(table_of(EXPRESSIONS * 5, vocabulary), vocabulary, **options)
    events = mixed_events(rng, 150)
    assert matched(segment, events) == expected(segment, events, vocabulary)


def test_a_column_tested_twice_must_hold_twice() -> None:
    rng = np.random.default_rng(2)
    table, vocabulary = random_table(rng, 300, 3, 5, 20, twice=True)
    segment = OpIndexSegment(table, vocabulary)
    events = random_events(rng, 60, 3, 3, 20)
    assert matched(segment, events) == expected(segment, events, vocabulary)


def test_counters_of_more_than_a_byte() -> None:
    vocabulary, table = Vocabulary(), ClauseTable.empty()
    column = vocabulary.attributes.number("a")
    between = [(column, Form.INTERVAL, int(Kind.NUMBER), Side.BEFORE, Side.AFTER, 2, 0.0, 5, 0.0)]
    table.append(0, between * 200)
    table.append(1, between)
    assert matched(OpIndexSegment(table, vocabulary), from_dicts([{"a": 2}, {"a": 6}, {"a": 5}])) == [
        [0, 1],
        [],
        [0, 1],
    ]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_each_expression_alone(text: str) -> None:
    """Its predicates are the last that are written: none may be written beyond them."""
    vocabulary = Vocabulary()
    segment = OpIndexSegment(table_of([text], vocabulary), vocabulary)
    events = mixed_events(np.random.default_rng(6), 30)
    assert matched(segment, events) == expected(segment, events, vocabulary)


def test_no_clauses_and_no_events() -> None:
    vocabulary = Vocabulary()
    assert matched(OpIndexSegment(ClauseTable.empty(), vocabulary), from_dicts([{"a": 1}])) == [[]]
    assert matched(OpIndexSegment(table_of(["a = 1"], vocabulary), vocabulary), from_dicts([])) == []


def test_many_matches_make_the_output_grow() -> None:
    vocabulary = Vocabulary()
    segment = OpIndexSegment(table_of(["a > 1", "a is null or a > 0"] * 1500, vocabulary), vocabulary)
    assert list(map(len, matched(segment, from_dicts([{"a": 9}] * 5)))) == [3000] * 5


def test_threads_do_not_share_scratch() -> None:
    rng = np.random.default_rng(3)
    table, vocabulary = random_table(rng, 2000, 30, 5, 50)
    segment = OpIndexSegment(table, vocabulary)
    batches = [random_events(rng, 100, 30, 30, 50) for _ in range(4)]
    alone = [matched(segment, batch) for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            assert list(pool.map(lambda batch: matched(segment, batch), batches)) == alone


def test_a_given_frequency_chooses_the_pivot() -> None:
    vocabulary = Vocabulary()
    table = table_of(["a = 1 and b = 1", "b = 2"], vocabulary)
    assert OpIndexSegment(table, vocabulary).pivots.tolist() == [0, 1]  # a is named once, b twice
    assert OpIndexSegment(table, vocabulary, np.array([0.9, 0.1])).pivots.tolist() == [1]


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("opindex")])
def test_cases_of_the_paper(name: str) -> None:
    case, vocabulary = CASES[name], Vocabulary()
    ids = list(case["subscriptions"])
    segment = OpIndexSegment(table_of(list(case["subscriptions"].values()), vocabulary), vocabulary)
    found = matched(segment, from_dicts([item["event"] for item in case["events"]]))
    # A DNF's clauses share an owner, which the index reports once.
    assert [sorted({ids[n] for n in numbers}) for numbers in found] == [item["matches"] for item in case["events"]]


@pytest.fixture(scope="module")
def table_1() -> OpIndexSegment:
    """Example 4's index: two segments, signatures of four bits; attributes are numbered A to E, so that A, C, E share a segment."""
    vocabulary = Vocabulary()
    vocabulary.attributes.numbers("ABCDE")
    return OpIndexSegment(table_of(list(TABLE_1["subscriptions"].values()), vocabulary), vocabulary, segments=2, bits=4)


def entries(segment: OpIndexSegment) -> dict[tuple[str, str, int], list[list[Any]]]:
    """(pivot, operator, segment) → predicates as the paper writes them."""
    space, found = segment.coded.space, {}
    for group in range(len(segment._index.lists.signatures)):
        partition, rest = divmod(group, segment._index.lists.segments * OPERATORS)
        part, operator = divmod(rest, OPERATORS)
        predicates = []
        for place in range(segment._index.lists.offsets[group], segment._index.lists.offsets[group + 1]):
            key = int(segment._index.lists.keys[place])
            column = int(np.searchsorted(segment._index.base, key, side="right")) - 1
            rank = (key - int(segment._index.base[column]) - int(space.base[column * KINDS]) - 1) // 2
            direct = space.least[column * KINDS] != np.iinfo(np.int64).min
            operand = (
                space.least[column * KINDS] + rank
                if direct
                else space.operand_whole[space.start[column * KINDS] + rank]
            )
            owner = segment.owners[segment._index.partitions.order[segment._index.lists.targets[place]]]
            predicates.append(["ABCDE"[column], int(operand), NAMES[owner]])
        found["ABCDE"[segment.pivots[partition]], ("=", "<=", ">=")[operator], part] = predicates
    return found


def test_pivots_of_table_1(table_1: OpIndexSegment) -> None:
    fact = FACTS["opindex pivots of table 1"]
    assert ["ABCDE"[column] for column in table_1.pivots] == fact["pivot_attributes"]
    owners = table_1.owners[table_1._index.partitions.order]
    lists = np.split(owners, table_1._index.partitions.starts[1:-1])
    assert lists[-1].tolist() == []  # the universal partition
    found = {"ABCDE"[column]: [NAMES[n] for n in part] for column, part in zip(table_1.pivots, lists[:-1], strict=True)}
    assert found == fact["lists"]


def test_predicate_lists_of_example_4(table_1: OpIndexSegment) -> None:
    fact, found = FACTS["opindex predicate lists of example 4"], entries(table_1)
    assert sum(map(len, found.values())) == fact["entries_total"]
    for each in fact["lists"]:
        for part, name in enumerate(("first", "second")):
            assert found[each["pivot"], each["operator"], part] == each[name]


def test_signatures_of_example_4(table_1: OpIndexSegment) -> None:
    inputs = FACTS["opindex signature bounds in example 4"]["distinct_hash_inputs"]
    for group, (pivot, operator, part) in enumerate(entries(table_1)):
        distinct, bits = inputs[pivot + operator][part], int(table_1._index.lists.signatures[group]).bit_count()
        assert min(distinct, 1) <= bits <= min(distinct, 4)
        assert int(table_1._index.lists.signatures[group]) < 2**4


def test_counters_of_table_1(table_1: OpIndexSegment) -> None:
    owners = table_1.owners[table_1._index.partitions.order].tolist()
    found = {NAMES[owner]: int(count) for owner, count in zip(owners, table_1._index.partitions.initial, strict=True)}
    assert found == FACTS["opindex counters of table 1"]["initial"]


@pytest.mark.parametrize("example", [2, 5])
def test_counters_after_examples(table_1: OpIndexSegment, example: int) -> None:
    fact = FACTS[f"opindex counters after example {example}"]
    counters = table_1._scratch().counters
    counters[:] = untouched = 99
    assert [NAMES[owner] for owner in matched(table_1, from_dicts([fact["event"]]))[0]] == fact["result"]
    owners = table_1.owners[table_1._index.partitions.order].tolist()
    left = {NAMES[owner]: int(count) for owner, count in zip(owners, counters, strict=True) if count != untouched}
    assert left == fact["remaining"]  # the counters of other pivots are not even set
    assert (
        sum(
            int(table_1._index.partitions.initial[place]) - int(counters[place])
            for place in np.flatnonzero(counters != untouched)
        )
        == (fact["decrements"])
    )
