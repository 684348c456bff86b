"""The choice of an engine on generated settings, judged by counts of work and not by the clock: entries met, clauses compared, counters
touched."""

from __future__ import annotations

import numpy as np
import pytest

from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.pivot.segment import PivotBlock
from ray_pubsub.engines.registry import ENGINES
from ray_pubsub.engines.selection.cost_model import CostModel
from ray_pubsub.engines.selection.machine import TYPICAL
from ray_pubsub.index.bulk.predicate_table import PredicateTable
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.workloads import GeneratedRules, Setting, generate, settings
from ray_pubsub.workloads.segments import BETWEEN, IN, NOT_IN

MODEL = CostModel(ENGINES, TYPICAL)
EVENTS = 16
CHOSEN = settings(10, 2000, seed=5)


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


@pytest.mark.parametrize("setting", CHOSEN, ids=[str(number) for number in range(len(CHOSEN))])
def test_the_work_is_what_was_expected(setting: Setting) -> None:
    rules = generate(setting, EVENTS)
    predicates, vocabulary = PredicateTable(rules.predicates()), Vocabulary()
    predicates.first_slot = 0
    table = predicates.clauses(np.arange(setting.rules), vocabulary)
    carried = dict(zip(rules.names, (rules.events >= 0).mean(axis=0), strict=True))
    frequency = np.array([carried[name] for name in vocabulary.attributes.texts])
    choice = MODEL.choose(table, vocabulary, frequency)
    given = choice.statistics[0]
    segment = PivotBlock(table, vocabulary, frequency)
    plans = [segment.explain(from_dicts([event])) for event in rules.event_dicts()]
    met = np.mean([sum(pipeline.steps[0].actual for pipeline in plan.pipelines if pipeline.steps) for plan in plans])
    compared = np.mean([plan.verified for plan in plans])
    assert met / 3 - 20 <= given.run * given.clauses <= 3 * met + 20
    assert compared <= 4 * given.checked * given.clauses + 20

    negated_only = np.add.reduceat(rules.kind != NOT_IN, rules.offsets[:-1]) == 0
    matches = np.mean([plan.matches for plan in plans])
    check = 3 * (1 + given.tests / 5) * TYPICAL.check
    always = given.cells * TYPICAL.visit + 7 * matches * TYPICAL.entry
    pivot = always + 2 * met * TYPICAL.entry + compared * check
    counting = always + 3 * counted(rules) * TYPICAL.count + negated_only.sum() * check
    if choice.engine == "pivot":
        assert pivot <= 1.3 * counting + 500, "counting does less"
    else:
        assert choice.estimates[0][choice.engine].in_batch <= 1.5 * pivot + 500, "pivot lists do less"
