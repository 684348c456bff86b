"""`Segment.explain`: the steps are those the engine takes, and what they leave is what is there."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import CodedTests
from ray_pubsub.columns.event_codes import encode_events
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.cnf.segment import CnfSegment
from ray_pubsub.engines.contract import Segment
from ray_pubsub.engines.dense.segment import DenseSegment
from ray_pubsub.engines.explain.plan import SegmentPlan, Step
from ray_pubsub.engines.papers.dexin import DexinSegment
from ray_pubsub.engines.papers.gem import GemSegment
from ray_pubsub.engines.papers.opindex import OpIndexSegment
from ray_pubsub.engines.papers.rein import ReinSegment
from ray_pubsub.engines.pivot.segment import PivotSegment
from ray_pubsub.language.printer import write
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.event_batch import EventBatch
from tests.examples import scaled
from tests.generators import events_near, trees
from tests.unit.engines.coded_tables import EXPRESSIONS, dense, mixed_events, random_events, random_table, table_of

Build = Callable[[ClauseTable, Vocabulary], Segment]


def with_options(kind: Any, **options: Any) -> Build:
    return lambda table, vocabulary: kind(table, vocabulary, **options)


BUILDS: dict[str, Build] = {
    "rein": ReinSegment,
    "rein, small blocks": with_options(ReinSegment, block=64, buckets=8),
    "dexin": DexinSegment,
    "dexin, small blocks": with_options(DexinSegment, block=100, cache=3),
    "dexin, no caches": with_options(DexinSegment, cache=0),
    "dexin, exclusive": with_options(DexinSegment, exclusive_only=True),
    "dexin, inclusive": with_options(DexinSegment, inclusive_only=True),
    "gem": GemSegment,
    "gem, no caches": with_options(GemSegment, block=64, tau=8, cache=0),
    "gem, small blocks": with_options(GemSegment, block=100, tau=7, cache=5),
    "opindex": OpIndexSegment,
    "opindex, small signatures": with_options(OpIndexSegment, segments=4, bits=8),
    "pivot": PivotSegment,
    "dense": DenseSegment,
}
every_build = pytest.mark.parametrize("name", BUILDS)
SHAPES = {"few columns": (300, 5, 5, 20), "many codes": (3000, 8, 8, 500), "wide": (300, 60, 8, 30)}


def one_by_one(events: EventBatch) -> list[EventBatch]:
    return [from_dicts([{name: value.plain for name, value in row.items()}]) for row in events.rows()]


def check(segment: Segment, event: EventBatch) -> SegmentPlan:
    """What is true of every plan."""
    plan = segment.explain(event)
    partitions = plan.partitions
    assert plan.clauses == len(segment) == partitions.clauses_visited + partitions.clauses_skipped
    assert sum(pipeline.clauses for pipeline in plan.pipelines) == partitions.clauses_visited
    for pipeline in plan.pipelines:
        left = [pipeline.clauses, *(step.actual for step in pipeline.steps)]
        assert left == sorted(left, reverse=True)
        assert all(step.estimated is None or step.estimated >= 0 for step in pipeline.steps)
    found = len(segment.match(event).slots)
    assert plan.matches == found == sum(pipeline.matches for pipeline in plan.pipelines)
    assert found <= partitions.clauses_visited and 0 <= plan.verified <= partitions.clauses_visited
    assert plan.seconds > 0
    return plan


@every_build
@pytest.mark.parametrize("shape", SHAPES)
def test_intervals(name: str, shape: str) -> None:
    count, columns, most, values = SHAPES[shape]
    rng = np.random.default_rng(len(shape))
    table, vocabulary = random_table(rng, count, columns, most, values)
    segment = BUILDS[name](table, vocabulary)
    for carried in (columns, columns // 2):
        for event in one_by_one(random_events(rng, 10, columns, carried, values)):
            check(segment, event)


@every_build
def test_sets_kinds_patterns_and_absence(name: str) -> None:
    vocabulary = Vocabulary()
    segment = BUILDS[name](table_of(EXPRESSIONS * 5, vocabulary), vocabulary)
    for event in one_by_one(mixed_events(np.random.default_rng(1), 60)):
        check(segment, event)


@settings(max_examples=scaled(13), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_any_expressions(data: st.DataObject) -> None:
    expressions = data.draw(st.lists(trees(most_leaves=4), min_size=1, max_size=6))
    event = from_dicts([data.draw(events_near(expressions))])
    vocabulary = Vocabulary()
    table = table_of([write(expression) for expression in expressions], vocabulary)
    if table.count and table.test_count:
        for build in BUILDS.values():
            check(build(table, vocabulary), event)


@pytest.mark.parametrize("name", [name for name in BUILDS if name != "dense"])
def test_no_clauses(name: str) -> None:
    plan = check(BUILDS[name](ClauseTable.empty(), Vocabulary()), from_dicts([{"a": 1}]))
    assert (plan.matches, plan.verified) == (0, 0)


def test_one_event_at_a_time() -> None:
    vocabulary = Vocabulary()
    segment = ReinSegment(table_of(["a = 1"], vocabulary), vocabulary)
    with pytest.raises(AssertionError):
        segment.explain(from_dicts([{"a": 1}, {"a": 2}]))


def holding(coded: CodedTests, event: EventBatch, vocabulary: Vocabulary, columns: set[int]) -> np.ndarray[Any, Any]:
    """Which clauses hold on these columns, test by test."""
    code = dense(encode_events(event, coded.space, vocabulary), coded.space.columns)[0, coded.column]
    fails = ((code < coded.low) | (code > coded.high)) & np.isin(coded.column, list(columns))
    failed = np.concatenate([[0], np.cumsum(fails)])
    return failed[coded.offsets[1:]] == failed[coded.offsets[:-1]]


@pytest.mark.parametrize("name", [name for name in BUILDS if name.startswith(("rein", "dexin"))] + ["gem"])
def test_every_step_leaves_what_holds_on_the_attributes_so_far(name: str) -> None:
    rng = np.random.default_rng(3)
    table, vocabulary = random_table(rng, 2000, 3, 3, 100)
    segment: Any = BUILDS[name](table, vocabulary)
    for event in one_by_one(random_events(rng, 20, 3, 3, 100)):
        plan = check(segment, event)
        everything = holding(segment.coded, event, vocabulary, {0, 1, 2})
        columns: set[int] = set()
        for step in plan.steps:
            columns |= {int(attribute[1:]) for attribute in step.attribute.split(", ")}
            holds = holding(segment.coded, event, vocabulary, columns)
            if name == "gem":  # starts with the clauses whose lead the event carries
                assert everything.sum() <= step.actual <= holds.sum()
            else:
                assert step.actual == holds.sum()


def rates(steps: list[Step], start: float, *, expected: bool) -> list[float]:
    """What part of the clauses each step was expected to leave, of those expected before it or of those there were."""
    before = [start, *((step.estimated if expected else step.actual) or 0.0 for step in steps)]
    return [(step.estimated or 0.0) / left for step, left in zip(steps, before, strict=False) if left]


@pytest.mark.parametrize("name", ["dexin", "dexin, no caches", "dexin, inclusive", "gem", "dense"])
def test_the_attribute_that_leaves_least_comes_first(name: str) -> None:
    rng = np.random.default_rng(4)
    table, vocabulary = random_table(rng, 5000, 6, 6, 1000)
    segment = BUILDS[name](table, vocabulary)
    for event in one_by_one(random_events(rng, 10, 6, 6, 1000)):
        (pipeline,) = check(segment, event).pipelines
        planned = [step for step in pipeline.steps if step.attribute and step.estimated is not None]
        start = 64.0 * -(-pipeline.clauses // 64) if name == "dense" else pipeline.clauses
        found = rates(planned, start, expected=name != "gem")
        assert len(found) > 1
        assert all(earlier <= later + 1e-9 for earlier, later in pairwise(found))


def test_estimates_of_narrow_slots_are_exact() -> None:
    vocabulary = Vocabulary()
    segment = DexinSegment(table_of([f"a = {number}" for number in range(40)] * 50, vocabulary), vocabulary)
    (step,) = check(segment, from_dicts([{"a": 7}])).steps
    assert (step.estimated, step.actual) == (pytest.approx(50), 50)


def test_the_methods_of_dexin() -> None:
    rng = np.random.default_rng(5)
    table, vocabulary = random_table(rng, 5000, 4, 4, 1000)
    event = from_dicts([{f"a{column}": 500 for column in range(4)}])
    methods = {
        name: [step.method.partition(",")[0] for step in check(BUILDS[name](table, vocabulary), event).steps]
        for name in BUILDS
        if name.startswith("dexin")
    }
    assert methods["dexin, exclusive"] == ["exclusive"] * 4
    assert methods["dexin, inclusive"] == ["inclusive"] * 4
    assert methods["dexin"] == sorted(methods["dexin"])  # Observation 2: inclusive after exclusive


def test_caches_are_named_where_they_are_used() -> None:
    rng = np.random.default_rng(6)
    table, vocabulary = random_table(rng, 5000, 4, 4, 1000)
    event = from_dicts([{f"a{column}": 500 for column in range(4)}])
    kinds: list[tuple[Any, dict[str, bool]]] = [(DexinSegment, {"exclusive_only": True}), (GemSegment, {})]
    for kind, options in kinds:
        cached, plain = (
            {step.method for step in check(kind(table, vocabulary, cache=cache, **options), event).steps}
            for cache in (63, 0)
        )
        assert any("cache" in method for method in cached)
        assert not any("cache" in method for method in plain)


@pytest.mark.parametrize("name", ["pivot", "opindex", "gem"])
def test_pivots_that_the_event_lacks_are_skipped(name: str) -> None:
    vocabulary = Vocabulary()
    texts = [f"a{number % 20} = {number}" for number in range(400)]
    segment = BUILDS[name](table_of(texts, vocabulary), vocabulary)
    plan = check(segment, from_dicts([{"a3": 3, "a4": 5}]))
    partitions = plan.partitions
    assert (partitions.visited, partitions.skipped) == (2, 18)
    assert (partitions.clauses_visited, partitions.clauses_skipped) == (40, 360)
    assert plan.matches == 1


def test_a_pivot_block_looks_up_by_value() -> None:
    vocabulary = Vocabulary()
    texts = [f"a = {number % 10} and b > {number // 50}" for number in range(100)] + ["c is null", "a > 3"]
    plan = check(PivotSegment(table_of(texts, vocabulary), vocabulary), from_dicts([{"a": 4, "b": 0.5}]))
    assert plan.partitions.visited == 2
    pivot, universal = plan.pipelines
    assert (pivot.of, pivot.clauses) == ("pivot a", 101)
    assert [(step.attribute, step.method, step.actual) for step in pivot.steps] == [
        ("a", "by value, by run of ranges", 11),
        ("", "other tests may hold", 6),
        ("", "own tests compared", 6),
    ]
    assert (universal.of, universal.clauses, universal.matches) == ("no pivot", 1, 1)
    # Ten clauses name each number, so nearly every value is expected to be one of the ten.
    assert pivot.steps[0].estimated == pytest.approx(10 + 6 / 10, rel=0.1)


def test_opindex_passes_over_lists_by_signature() -> None:
    vocabulary = Vocabulary()
    texts = [f"a = {number} and b >= {number}" for number in range(50)]
    plan = check(
        OpIndexSegment(table_of(texts, vocabulary), vocabulary, np.array([0.1, 1.0])),
        from_dicts([{"a": 7, "b": 9, "c": 1}]),
    )
    assert [(step.attribute, step.method, step.actual) for step in plan.steps] == [
        ("a", "lists searched: =", 1),
        ("b", "lists searched: >=", 1),
        ("", "counters at zero", 1),
    ]
    missing = check(
        OpIndexSegment(table_of(["a = 1 and b = 1"], vocabulary), vocabulary), from_dicts([{"a": 1, "b": 2}])
    )
    first = missing.steps[0]
    assert (first.attribute, first.method, first.actual) == ("b", "passed over by signature", 0)


def test_words_that_cannot_match_are_skipped() -> None:
    rng = np.random.default_rng(7)
    vocabulary = Vocabulary()
    low = rng.integers(0, 1000, (6000, 2))
    texts = [f"a between {a} and {a + 20} and b between {b} and {b + 20}" for a, b in low.tolist()]
    plan = check(DenseSegment(table_of(texts, vocabulary), vocabulary), from_dicts([{"a": 500, "b": 500}]))
    assert plan.partitions.visited + plan.partitions.skipped == -(-6000 // 64)
    assert plan.partitions.skipped > plan.partitions.visited
    *bitmaps, compared = plan.steps
    assert {step.attribute for step in bitmaps} <= {"a", "b"} and bitmaps
    assert compared.actual == plan.matches <= plan.verified == bitmaps[-1].actual


def test_conjunctions_of_disjunctions() -> None:
    vocabulary, pairs = Vocabulary(), range(10)
    needed = [
        " and ".join(f"(x{pair} = {number} or y{pair} = {number})" for pair in pairs) + f" and v{number % 2} = {number}"
        for number in range(12)
    ]
    free = " and ".join(f"(x{pair} is null or y{pair} = 3)" for pair in pairs)
    segment = CnfSegment(table_of([*needed, free], vocabulary), vocabulary)
    event = from_dicts([{f"{name}{pair}": 3 for name in "xy" for pair in pairs} | {"v1": 3}])
    plan = segment.explain(event)
    assert (plan.engine, plan.clauses, plan.matches) == ("cnf", 13, len(segment.match(event).slots))
    partitions, (pipeline,) = plan.partitions, plan.pipelines
    assert (partitions.visited, partitions.skipped) == (1, 1)  # v1 and v0
    assert (partitions.clauses_visited, partitions.clauses_skipped) == (7, 6)  # one needs no attribute
    assert [pipeline.clauses, *(step.actual for step in pipeline.steps)] == [7, 2, 2]
    assert (plan.verified, plan.matches) == (2, 2)


def test_blocks_that_go_the_same_way_are_added_up() -> None:
    rng = np.random.default_rng(8)
    table, vocabulary = random_table(rng, 1000, 1, 1, 100)
    alone = check(GemSegment(table, vocabulary), from_dicts([{"a0": 50}]))
    plan = check(GemSegment(table, vocabulary, block=250), from_dicts([{"a0": 50}]))
    assert sum(int(pipeline.of.split()[0]) if " " in pipeline.of else 1 for pipeline in plan.pipelines) == 4
    assert sum(pipeline.matches for pipeline in plan.pipelines) == alone.matches
    assert list(accumulate(pipeline.clauses for pipeline in plan.pipelines))[-1] == alone.partitions.clauses_visited
