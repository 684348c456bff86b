"""What the cost model prefers, on constants that do not depend on the machine; and that no choice changes a result."""

from __future__ import annotations

from dataclasses import fields, replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.dense.segment import DenseSegment
from ray_pubsub.engines.pivot.segment import PivotSegment
from ray_pubsub.engines.registry import ENGINES
from ray_pubsub.engines.selection import segment_choice as segments
from ray_pubsub.engines.selection.clause_statistics import (
    ClauseSample,
    ClauseStatistics,
    known_events,
    narrow_events,
    wide_events,
)
from ray_pubsub.engines.selection.cost_formulas import MOST_DENSE_COLUMNS
from ray_pubsub.engines.selection.cost_model import CostModel
from ray_pubsub.engines.selection.machine import TYPICAL, MachineConstants
from ray_pubsub.engines.selection.segment_choice import FEWEST_CHOSEN, choose_segment
from ray_pubsub.index.bulk.predicate_table import PredicateTable
from ray_pubsub.kernels.pivot.clause_rows import SHORT
from ray_pubsub.workloads import Segments, Workload, dense, partial, sparse
from ray_pubsub.workloads import segments as advertisers
from tests.unit.engines.coded_tables import (
    EXPRESSIONS,
    matched,
    mixed_events,
    random_events,
    random_table,
    table_of,
)

CANDIDATES = [name for name, entry in ENGINES.items() if entry.cost is not None]
MODEL = CostModel(ENGINES, TYPICAL)
COUNT = 20_000
Table = tuple[ClauseTable, Vocabulary]


def clauses_of(workload: Workload | Segments) -> Table:
    predicates, vocabulary = PredicateTable(workload.predicates()), Vocabulary()
    predicates.first_slot = 0
    return predicates.clauses(np.arange(workload.subscriptions), vocabulary), vocabulary


def intervals(count: int, columns: int, shortest: float, longest: float) -> Table:
    """Every clause constrains every column, in millionths, to an interval of such a length."""
    rng = np.random.default_rng(1)
    length = rng.uniform(shortest, longest, (count, columns))
    low = rng.random((count, columns)) * (1 - length)
    rows: dict[str, Any] = {
        "id": np.repeat(np.arange(count), columns),
        "attribute": np.tile([f"a{column}" for column in range(columns)], count),
        "low": (low * 1e6).astype(np.int64).ravel(),
        "high": ((low + length) * 1e6).astype(np.int64).ravel(),
    }
    predicates, vocabulary = PredicateTable(pa.table(rows)), Vocabulary()
    predicates.first_slot = 0
    return predicates.clauses(np.arange(count), vocabulary), vocabulary


def statistics(table: Table) -> ClauseStatistics:
    sample = ClauseSample(*table)
    return sample.statistics(wide_events(sample.tested))


@pytest.fixture(scope="module")
def w1() -> ClauseStatistics:
    return statistics(clauses_of(dense(COUNT)))


# ------------------------------------------------------------------------------------------------ what is preferred


@pytest.mark.parametrize(
    ("make", "engine"), [(dense, "dense"), (partial, "dense"), (sparse, "pivot")], ids=["W1", "W2", "W3"]
)
@pytest.mark.parametrize("count", [FEWEST_CHOSEN, COUNT])
def test_the_standard_workloads(make: Any, engine: str, count: int) -> None:
    assert MODEL.choose(*clauses_of(make(count))).engine == engine


@pytest.mark.parametrize(
    ("make", "engine"), [(dense, "dense"), (partial, "dense"), (sparse, "pivot")], ids=["W1", "W2", "W3"]
)
def test_a_constant_measured_badly_changes_nothing_there(make: Any, engine: str) -> None:
    table = clauses_of(make(FEWEST_CHOSEN))
    for name, value in TYPICAL.to_dict().items():
        for error in (0.6, 1.6):
            assert CostModel(ENGINES, replace(TYPICAL, **{name: error * value})).choose(*table).engine == engine


def test_sets_are_for_pivot_lists() -> None:
    """W4. Nobody else knows sets by their values; what a set's hull admits is thousands of times what matches."""
    choice = MODEL.choose(*clauses_of(advertisers(FEWEST_CHOSEN)))
    assert choice.engine == "pivot"
    for given, estimates in zip(choice.statistics, choice.estimates, strict=True):
        assert given.survivors > 5 * given.matched
        for name, estimate in estimates.items():
            assert name == "pivot" or min(estimate) > 2 * min(estimates["pivot"])


def test_gaps_that_hold_most_values_prune() -> None:
    """`not in` has the widest hull there is, so bounds exclude nothing. Engines that toggle gaps pay for a pass over bits, and next to
    nothing for the clauses that the gaps exclude; bitmaps of hulls compare every clause."""
    random, vocabulary = Random(1), Vocabulary()
    texts = [
        " and ".join(f"{name} not in {tuple(random.sample(range(40), 12))}" for name in "abcd")
        for _ in range(FEWEST_CHOSEN)
    ]
    choice = MODEL.choose(table_of(texts, vocabulary), vocabulary, np.ones(4))
    given, estimates = choice.statistics[0], choice.estimates[0]
    assert given.survivors > 0.7 and given.gapped == 4.0 and 0.4 < given.between < 0.8
    assert choice.engine == "pivot"  # by states of clauses
    for name in ("pivot", "rein", "dexin", "gem"):
        assert 10 * estimates[name].in_batch < min(estimates["dense"].in_batch, estimates["opindex"].in_batch)


def test_most_clauses_match() -> None:
    """Then states of clauses find those that do not, or marks; to compare each clause takes longer than either."""
    choice = MODEL.choose(*intervals(COUNT, 10, 0.9, 0.99))
    assert choice.engine == "pivot"
    assert max(choice.cost_of(name) for name in ("pivot", "rein")) < choice.cost_of("dense") / 2


def test_equalities_with_many_values() -> None:
    vocabulary = Vocabulary()
    table = table_of([f"a = {number} and b > {number % 9} and c < 7" for number in range(6000)], vocabulary)
    assert MODEL.choose(table, vocabulary).engine == "pivot"


def test_wide_tables_have_no_bitmaps() -> None:
    table, vocabulary = random_table(np.random.default_rng(1), 2000, MOST_DENSE_COLUMNS + 1, 4, 50)
    assert set(MODEL.choose(table, vocabulary).estimates[0]) == set(CANDIDATES) - {"dense"}


def test_patterns_are_columns() -> None:
    vocabulary = Vocabulary()
    texts = [f"a > {number} and c like '%{number}%'" for number in range(MOST_DENSE_COLUMNS)]
    assert "dense" not in MODEL.choose(table_of(texts, vocabulary), vocabulary).estimates[0]


@pytest.mark.parametrize(
    ("engine", "constants"),
    [
        ("dense", {"check": 0.5}),
        ("dexin", {"call": 1.0}),
        ("gem", {"check": 10.0, "visit": 200.0}),
        ("opindex", {"count": 1e-6, "word": 1e-6, "mark": 1e3, "visit": 1e4, "check": 1e3}),
        ("pivot", {"entry": 1e-6, "check": 1e-6}),
        ("rein", {"mark": 1e-6, "visit": 1e-6, "check": 1e3, "word": 10.0}),
    ],
)
def test_every_candidate_is_best_on_some_machine(engine: str, constants: dict[str, float]) -> None:
    """Those of the papers beside each other and dense: where they were the best, states of clauses are now."""
    engines = {name: ENGINES[name] for name in CANDIDATES if name != "pivot" or engine == "pivot"}
    assert CostModel(engines, replace(TYPICAL, **constants)).choose(*intervals(COUNT, 4, 0.2, 0.8)).engine == engine


# ------------------------------------------------------------------------------------------------ the estimates


@pytest.mark.parametrize("constant", [field.name for field in fields(MachineConstants)])
def test_a_slower_machine_is_never_faster(w1: ClauseStatistics, constant: str) -> None:
    slower = CostModel(ENGINES, replace(TYPICAL, **{constant: 2 * getattr(TYPICAL, constant)})).estimates(w1)
    usual = MODEL.estimates(w1)
    assert all(slower[name] >= usual[name] and slower[name].in_batch >= usual[name].in_batch for name in usual)
    assert any(slower[name] != usual[name] for name in usual), "no engine pays for it"


def test_only_proportions_count() -> None:
    doubled = CostModel(ENGINES, MachineConstants(**{name: 2 * value for name, value in TYPICAL.to_dict().items()}))
    for table in (clauses_of(dense(5000)), clauses_of(sparse(5000)), intervals(5000, 2, 0.2, 0.8)):
        assert doubled.choose(*table).engine == MODEL.choose(*table).engine


@pytest.mark.parametrize("engine", CANDIDATES)
def test_more_clauses_cost_more(w1: ClauseStatistics, engine: str) -> None:
    more = MODEL.estimates(replace(w1, clauses=10 * w1.clauses))[engine]
    less = MODEL.estimates(w1)[engine]
    assert more.alone > less.alone and more.in_batch > less.in_batch


@pytest.mark.parametrize("engine", CANDIDATES)
def test_more_matches_cost_more(w1: ClauseStatistics, engine: str) -> None:
    more, less = MODEL.estimates(replace(w1, matched=0.1, survivors=0.1))[engine], MODEL.estimates(w1)[engine]
    assert more.alone > less.alone and more.in_batch > less.in_batch


@pytest.mark.parametrize("engine", CANDIDATES)
def test_a_call_is_shared_by_a_batch(w1: ClauseStatistics, engine: str) -> None:
    slow = CostModel(ENGINES, replace(TYPICAL, call=1e9)).estimates(w1)[engine]
    assert slow.alone > 100 * slow.in_batch


# ------------------------------------------------------------------------------------------------ the statistics


def test_statistics_of_w1(w1: ClauseStatistics) -> None:
    """The workload's own definition: ten tests, each admits half of the values in the mean; 198,596 matches of 200 events and a million."""
    assert (w1.clauses, w1.columns, w1.tests, w1.cells) == (COUNT, 10, 10.0, 10.0)
    assert w1.passing == pytest.approx(np.full(10, 0.5), abs=0.03)
    assert w1.matched == pytest.approx(198_596 / 200 / 1_000_000, rel=0.2)


def test_statistics_of_w3() -> None:
    workload = sparse(COUNT)
    found = statistics(clauses_of(workload))
    assert found.columns == len(np.unique(workload.attribute))
    assert found.tests == pytest.approx(4.5, rel=0.05)
    assert found.run < 0.01 and found.matched < 0.001


def test_statistics_agree_with_the_matches() -> None:
    """Uniform events on uniform clauses: the part that matches is what is found."""
    rng = np.random.default_rng(2)
    table, vocabulary = random_table(rng, 3000, 4, 3, 40)
    sample = ClauseSample(table, vocabulary)
    given = sample.statistics(known_events(sample.tested, np.full(4, 0.5)))
    events = random_events(rng, 200, 4, 4, 40)
    found = sum(map(len, matched(PivotSegment(table, vocabulary), events))) / 200 / 3000  # type: ignore[arg-type]
    assert given.matched == pytest.approx(found, rel=0.3)


def test_a_sample_tells_as_much_as_all() -> None:
    whole, part = statistics(clauses_of(partial(4000))), statistics(clauses_of(partial(100_000)))
    for name in ("run", "checked", "matched", "counted"):
        assert getattr(part, name) == pytest.approx(getattr(whole, name), rel=0.15)


def test_empty_tables_and_clauses_without_tests() -> None:
    vocabulary = Vocabulary()
    assert MODEL.choose(ClauseTable.empty(), vocabulary).engine in CANDIDATES
    choice = MODEL.choose(table_of(["true"] * 100, vocabulary), vocabulary)
    assert choice.statistics[0].matched == 1.0 and "dense" not in choice.estimates[0]


def test_absence_is_a_value() -> None:
    vocabulary = Vocabulary()
    sample = ClauseSample(table_of(["a is null"] * 10, vocabulary), vocabulary)
    for carried in (0.0, 0.25, 1.0):
        assert sample.statistics(known_events(sample.tested, np.array([carried]))).matched == pytest.approx(1 - carried)


def test_rows_of_sets_have_a_number_for_every_value() -> None:
    """As kernels/pivot/clause_rows.py writes them: the tests' number, per test a column and a size, then codes."""
    vocabulary = Vocabulary()
    texts = ["a in ('v1', 'v3', 'v5') and b between 1 and 4", "a not in ('v3') and b = 2", "b > 3 and c = 'v1'"]
    sample = ClauseSample(table_of(texts, vocabulary), vocabulary)
    block = PivotSegment(table_of(texts, vocabulary), vocabulary)
    assert sample.statistics(np.ones(3)).numbers * 3 == pytest.approx(len(block._lists.words) - SHORT)


def test_batches_of_crowded_sets_share_a_pass() -> None:
    """Events that meet a good part of the clauses: alone they pay for all of them, in a batch for their share of one pass over the rows."""
    random, vocabulary = Random(1), Vocabulary()
    sets = [str(tuple(random.sample(range(40), 12))) for _ in range(9000)]
    texts = [f"a in {one} and b in {two} and c in {three}" for one, two, three in zip(*[iter(sets)] * 3, strict=True)]
    estimate = MODEL.choose(table_of(texts, vocabulary), vocabulary).estimates[0]["pivot"]
    assert estimate.in_batch < estimate.alone / 3


def test_a_set_admits_its_points() -> None:
    vocabulary = Vocabulary()
    sets = [f"a in ('v{number}', 'v{(number + 33) % 100}', 'v{(number + 66) % 100}')" for number in range(100)]
    sample = ClauseSample(table_of([f"a = 'v{number}'" for number in range(100)] + sets, vocabulary), vocabulary)
    given = sample.statistics(np.ones(1))
    assert given.matched == pytest.approx((1 / 100 + 3 / 100) / 2, rel=0.2)
    assert given.survivors > 5 * given.matched, "the hull of a set is wide"


def test_a_frequent_constant_is_a_frequent_value() -> None:
    vocabulary = Vocabulary()
    texts = ["a = 'often'"] * 100 + [f"a = 'v{number}'" for number in range(100)]
    frequent = ClauseSample(table_of(texts, vocabulary), vocabulary).statistics(np.ones(1))
    even = ClauseSample(table_of([f"a = 'v{number}'" for number in range(200)], vocabulary), vocabulary)
    assert frequent.matched > 10 * even.statistics(np.ones(1)).matched


def test_what_events_carry() -> None:
    tested = np.array([1.0, 0.5, 0.1, 0.0])
    assert wide_events(tested).tolist() == pytest.approx([1, 1, 1, 0])
    assert narrow_events(tested).tolist() == pytest.approx([1, 1, 0.4, 0])
    assert known_events(tested, np.array([0.5, 2.0])).tolist() == [0.5, 1.0, 0.0, 0.0]
    many = np.full(20_000, 0.001)
    assert wide_events(many).sum() == pytest.approx(160) and narrow_events(many).sum() == pytest.approx(80)


def test_what_is_known_of_events_counts() -> None:
    """Clauses of a few wide tests on many columns match often if events carry all of them, and are seldom met if they carry few."""
    rng = np.random.default_rng(1)
    count, columns, tests = 8000, 40, 3
    attribute = np.argsort(rng.random((count, columns)), axis=1)[:, :tests]
    length = rng.uniform(0.5, 0.9, (count, tests))
    low = rng.random((count, tests)) * (1 - length)
    rows: dict[str, Any] = {
        "id": np.repeat(np.arange(count), tests),
        "attribute": np.array([f"a{column}" for column in range(columns)])[attribute.ravel()],
        "low": (low * 1e6).ravel(),
        "high": ((low + length) * 1e6).ravel(),
    }
    predicates, vocabulary = PredicateTable(pa.table(rows)), Vocabulary()
    predicates.first_slot = 0
    table = predicates.clauses(np.arange(count), vocabulary)
    all_of_them = MODEL.choose(table, vocabulary, np.ones(columns))
    few = MODEL.choose(table, vocabulary, np.full(columns, 0.02))
    assert all_of_them.cost_of("rein") < all_of_them.cost_of("dense") / 2
    assert few.engine == "pivot" and few.cost < min(few.cost_of("rein"), all_of_them.cost) / 2


# ------------------------------------------------------------------------------------------------ any choice is right


class Always(CostModel):
    """A model that has made up its mind."""

    def __init__(self, engine: str) -> None:
        super().__init__(ENGINES, TYPICAL)
        self.engine = engine

    def choose(self, *given: Any, **options: Any) -> Any:
        return replace(super().choose(*given, **options), engine=self.engine)


@pytest.mark.parametrize("engine", CANDIDATES)
def test_results_do_not_depend_on_the_choice(engine: str) -> None:
    rng = np.random.default_rng(3)
    vocabulary = Vocabulary()
    table = table_of(EXPRESSIONS * 3, vocabulary)
    events = mixed_events(rng, 200)
    segment = choose_segment(ENGINES, table, vocabulary, model=Always(engine))
    assert type(segment) is ENGINES[engine].segment
    expected = MatchIndex(engine="scan")
    expected.add_many(range(3 * len(EXPRESSIONS)), EXPRESSIONS * 3, atomic=True)
    found = [sorted(set(owners)) for owners in matched(segment, events)]  # type: ignore[arg-type]
    whole = expected.match_many(events)
    assert found == [sorted(whole[event]) for event in range(200)]


@pytest.mark.parametrize(("make", "kind"), [(dense, DenseSegment), (sparse, PivotSegment)])
def test_the_machine_is_not_measured_for_small_tables(make: Any, kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured() -> None:
        raise AssertionError("the machine is not measured for a small table")

    monkeypatch.setattr(segments, "machine_constants", measured)
    table, vocabulary = clauses_of(make(FEWEST_CHOSEN - 1))
    assert type(choose_segment(ENGINES, table, vocabulary)) is kind


@pytest.mark.parametrize(("count", "compared"), [(2000, {"dense", "pivot"}), (8000, set(CANDIDATES))])
def test_blocks_of_thousands_are_compared_with_all_engines(
    count: int, compared: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sets and negated sets of two skewed attributes, of which nearly half match."""
    seen: list[set[str]] = []

    def estimates(self: CostModel, given: ClauseStatistics) -> Any:
        found = real(self, given)
        seen.append(set(found))
        return found

    real = CostModel.estimates
    monkeypatch.setattr(CostModel, "estimates", estimates)
    rng, vocabulary = np.random.default_rng(1), Vocabulary()
    texts = [
        f"a not in {tuple(rng.integers(0, 300, 20).tolist())} and b not in {tuple(rng.integers(0, 300, 20).tolist())}"
        for _ in range(count)
    ]
    segment = choose_segment(ENGINES, table_of(texts, vocabulary), vocabulary)
    assert segment.engine == "pivot" and seen and all(each == compared for each in seen)
