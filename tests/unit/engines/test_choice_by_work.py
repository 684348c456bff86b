"""The choice of an engine on generated settings and on classes of users' rules, judged by counts of work and not by the clock: entries met,
clauses compared, matches, counters touched."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.pivot.segment import PivotSegment
from ray_pubsub.engines.registry import ENGINES
from ray_pubsub.engines.selection.clause_statistics import ClauseSample, ClauseStatistics, known_events
from ray_pubsub.engines.selection.cost_model import CostModel
from ray_pubsub.engines.selection.event_sample import events_alike, events_seen
from ray_pubsub.engines.selection.machine import TYPICAL
from ray_pubsub.engines.selection.sampled_work import counted_statistics
from ray_pubsub.index.bulk.predicate_table import PredicateTable
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.workloads import CLASSES, GeneratedRules, Setting, generate, settings, user_rules
from ray_pubsub.workloads.segments import BETWEEN, IN, NOT_IN
from tests.unit.engines.coded_tables import table_of

MODEL = CostModel(ENGINES, TYPICAL)
EVENTS = 64
EXPLAINED = 8
CHOSEN = settings(10, 2000, seed=5)


class Given:
    """Rules as an index has them, and what it knows of events."""

    def __init__(self, rules: GeneratedRules) -> None:
        self.rules, self.vocabulary = rules, Vocabulary()
        if rules.plain:
            predicates = PredicateTable(rules.predicates())
            predicates.first_slot = 0
            self.table: ClauseTable = predicates.clauses(np.arange(rules.count), self.vocabulary)
        else:
            self.table = table_of(rules.texts(), self.vocabulary)
        self.dicts = rules.event_dicts()
        carried = dict(zip(rules.names, (rules.events >= 0).mean(axis=0), strict=True))
        self.frequency: NDArray[np.float64] = np.array([carried[name] for name in self.vocabulary.attributes.texts])
        self.choice = MODEL.choose(self.table, self.vocabulary, self.frequency, from_dicts(self.dicts))

    @property
    def statistics(self) -> ClauseStatistics:
        return self.choice.statistics[0]


@cache
def of_class(name: str) -> Given:
    return Given(user_rules(name, 3000, events=EVENTS))


def counted(rules: GeneratedRules) -> float:
    """Counters that plain counting touches per event: a test that holds is one; negated sets are compared, not counted."""
    owner = np.repeat(np.arange(len(rules.kind)), np.diff(rules.value_offsets))
    touched = 0
    for row in rules.events:
        value = row[rules.attribute]
        first = rules.value[rules.value_offsets[:-1]]
        last = rules.value[rules.value_offsets[1:] - 1]
        touched += int(((rules.kind == BETWEEN) & (value >= first) & (value <= last)).sum())
        touched += len(np.unique(owner[(rules.kind[owner] == IN) & (rules.value == value[owner])]))
    return touched / len(rules.events)


def check_work(given: Given) -> None:
    """Compares what was expected of pivot lists with what their plans count, and auto's choice with plain counting."""
    choice, rules = given.choice, given.rules
    some = from_dicts(given.dicts[:EXPLAINED])
    statistics = MODEL.choose(given.table, given.vocabulary, given.frequency, some).statistics[0]
    segment = PivotSegment(given.table, given.vocabulary, given.frequency)
    plans = [segment.explain(from_dicts([event])) for event in given.dicts[:EXPLAINED]]
    met = np.mean([sum(pipeline.steps[0].actual for pipeline in plan.pipelines if pipeline.steps) for plan in plans])
    compared, matches = np.mean([(plan.verified, plan.matches) for plan in plans], axis=0)
    clauses = statistics.clauses
    assert met / 2 - 20 <= statistics.run * clauses <= 2 * met + 20
    assert compared / 2.5 - 20 <= statistics.checked * clauses <= 2.5 * compared + 20
    assert matches / 2.5 - 10 <= statistics.matched * clauses <= 2.5 * matches + 10
    check = 3 * (1 + statistics.tests / 5) * TYPICAL.check
    always = statistics.cells * TYPICAL.visit + 7 * matches * TYPICAL.entry
    negated_only = np.add.reduceat(rules.kind != NOT_IN, rules.offsets[:-1]) == 0
    counting = always + 3 * counted(rules) * TYPICAL.count + negated_only.sum() * check
    if choice.engine == "pivot":
        pivot = always + 2 * met * TYPICAL.entry + compared * check
        in_batch = choice.estimates[0]["pivot"].in_batch
        assert min(pivot, in_batch) <= 1.3 * counting + 500, "counting does less"
    else:
        assert choice.cost <= choice.cost_of("pivot"), "pivot lists do less"


@pytest.mark.parametrize("setting", CHOSEN, ids=[str(number) for number in range(len(CHOSEN))])
def test_the_work_is_what_was_expected(setting: Setting) -> None:
    check_work(Given(generate(setting, EVENTS)))


@pytest.mark.parametrize("name", CLASSES)
def test_the_work_of_users_rules_is_what_was_expected(name: str) -> None:
    check_work(of_class(name))


@pytest.mark.parametrize("name", CLASSES)
def test_without_events_the_choice_is_nearly_as_good(name: str) -> None:
    """By the costs for the events that come: at most 0.6 as much again as the best, among what `auto` is tuned for."""
    given = of_class(name)
    blind = MODEL.choose(given.table, given.vocabulary).engine
    best = min(given.choice.cost_of(engine) for engine in given.choice.estimates[0] if ENGINES[engine].favoured)
    assert given.choice.cost_of(blind) <= 1.6 * best


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("wish lists", "pivot"),
        ("ad segments", "pivot"),
        ("thresholds", "pivot"),
        ("time windows", "dense"),
        ("sparse, skewed", "pivot"),
        ("a common equality", "pivot"),
        ("exclusions", "pivot"),
        ("mixture", "pivot"),
    ],
)
def test_the_choice_for_classes_of_rules(name: str, engine: str) -> None:
    given = of_class(name)
    assert given.choice.engine == engine
    assert MODEL.choose(given.table, given.vocabulary).engine == engine


def test_values_that_depend_on_each_other_are_not_multiplied() -> None:
    """Ten metrics that rise and fall together. Where one admits an event, the others do: by their shares alone a hundredth of the
    clauses would be compared and next to none would match."""
    given = of_class("correlated metrics")
    sample = ClauseSample(given.table, given.vocabulary)
    multiplied = sample.statistics(known_events(sample.tested, given.frequency), known=True)
    assert given.statistics.matched > 100 * multiplied.matched
    alike = counted_statistics(sample, multiplied, events_alike(sample, np.ones(10)), None)
    assert alike.matched > 20 * multiplied.matched, "the clauses themselves say so"


def test_counted_statistics_are_those_of_the_pairs() -> None:
    """Against plain Python, with sets, negated sets, absence and ranges."""
    rng, vocabulary = np.random.default_rng(3), Vocabulary()
    texts = (
        [f"a in ({low}, {low + 3}, {low + 7}) and b between {low} and {low + 9}" for low in range(12)]
        + [f"b > {low} and c not in ({low}, {low + 1})" for low in range(12)]
        + ["c is null and a < 5"] * 3
    )
    table = table_of(texts, vocabulary)
    dicts: list[dict[str, Any]] = [
        {name: int(rng.integers(0, 20)) for name in "abc" if rng.random() < 0.8} for _ in range(50)
    ]
    sample = ClauseSample(table, vocabulary)
    given = sample.statistics(np.full(3, 0.8), known=True)
    seen = events_seen(sample, from_dicts(dicts), vocabulary)
    found = counted_statistics(sample, given, seen, np.full(3, 0.8))
    matches, hulls = 0, 0
    for event in dicts:
        a, b, c = (event.get(name) for name in "abc")
        for low in range(12):
            first = b is not None and low <= b <= low + 9
            matches += a in (low, low + 3, low + 7) and first
            hulls += a is not None and low <= a <= low + 7 and first
            second = b is not None and b > low and c is not None
            matches += second and c not in (low, low + 1)
            hulls += second
        matches += 3 * (c is None and a is not None and a < 5)
        hulls += 3 * (c is None and a is not None and a < 5)
    pairs = len(texts) * len(dicts)
    assert found.matched == pytest.approx(matches / pairs)
    assert found.survivors == pytest.approx(hulls / pairs)
