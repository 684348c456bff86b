"""Whatever the rules and events: confirmed answers are those of plain evaluation, unconfirmed ones are never lower."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ray_pubsub.language.printer import write
from ray_pubsub.language.tree import Tree
from ray_pubsub.priority import Bins, Categories, Function, PriorityRules, Quantiles, Steps
from tests.examples import scaled
from tests.generators import events_near, trees
from tests.unit.priority.plain_rules import LEVELS, PlainRules

Rule = tuple[str, Tree]
rule_sets = st.lists(st.tuples(st.sampled_from(LEVELS), trees(most_leaves=5)), min_size=1, max_size=10)


@st.composite
def rules_and_events(draw: st.DrawFn) -> tuple[list[Rule], list[dict[str, Any]]]:
    rules = draw(rule_sets)
    return rules, draw(st.lists(events_near([tree for _, tree in rules]), min_size=1, max_size=6))


def number_of_digits(value: Any) -> int:
    """A discretizer of a user: total on some values, an error on others."""
    if isinstance(value, str):
        return len(value)
    return 0 if value < 0 else min(3, int(value))


WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "few signatures": {"signatures": 1 << 12, "false_positive_rate": 0.5},
    "no cache": {"cache": 0},
    "own bins": {
        "discretizers": {
            "n1": Bins([-2, 0.5, 3, 2**53 + 1]),
            "n2": Steps(2.5, 0.1),
            "a.b": Quantiles(2),
            "s1": Categories(["a", "ab", ""]),
            "s2": Bins(["a", "b"]),
            "b1": Categories([True]),
        }
    },
    "own functions": {
        "discretizers": {
            "n1": Function(lambda value: int(value >= 0) + int(value > 2), 3, monotone=True),
            "n2": Function(number_of_digits, 4),
            "s1": Function(number_of_digits, 3),
            "b1": Function(int, 2, monotone=True),
            "t1": Function(lambda value: 1, 1),
        }
    },
}
every_way = pytest.mark.parametrize("settings_", WAYS.values(), ids=WAYS)


@every_way
@given(case=rules_and_events())
@settings(max_examples=scaled(15), phases=[Phase.explicit, Phase.generate])
def test_confirmed_answers_are_exact(settings_: dict[str, Any], case: tuple[list[Rule], list[dict[str, Any]]]) -> None:
    rules, events = case
    plain, confirmed = PlainRules(), PriorityRules(LEVELS, **settings_)
    unconfirmed = PriorityRules(LEVELS, confirm=False, **settings_)
    for number, (level, tree) in enumerate(rules):  # some in bulk, some one by one into bins chosen before
        plain.add(number, level, tree)
    texts = [write(tree) for _, tree in rules]
    levels = [level for level, _ in rules]
    half = len(rules) // 2
    for each in (confirmed, unconfirmed):
        assert each.add_many(range(half), levels[:half], texts[:half])
        for number in range(half, len(rules)):
            each.add(number, levels[number], texts[number])
    expected = [plain.priority(event) for event in events]
    assert confirmed.priorities(events) == expected
    assert [confirmed.priority(event) for event in events] == expected
    said = unconfirmed.levels_of(events).levels.tolist()
    assert all(got >= plain.number(event) for got, event in zip(said, events, strict=True))
    assert [LEVELS.index(unconfirmed.priority(event)) for event in events] == said
    for each in (confirmed, unconfirmed):
        measured = each.measure(events)
        assert measured.missed == 0
        assert measured.matched == sum(level != "low" for level in expected)
    assert unconfirmed.measure(events).false_positives == sum(
        got > plain.number(event) for got, event in zip(said, events, strict=True)
    )
    for event, level in zip(events, expected, strict=True):
        explained = confirmed.explain(event)
        assert (explained.level, explained.exact) == (level, level)
        if level != "low":
            assert [plain.rules[rule][0] for rule in explained.rules] == [LEVELS.index(level)] * len(explained.rules)
            assert explained.rules
