"""Generated rules mean the same as arrays, as rows of intervals and as texts; what is asked of a setting is what it has."""

from __future__ import annotations

import numpy as np
import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.workloads import CLASSES, GeneratedRules, generate, settings, user_rules
from ray_pubsub.workloads.segments import BETWEEN, NOT_IN

RULES, EVENTS = 300, 12
SETTINGS = [setting.of_size(RULES) for setting in settings(20, 2000, seed=9)]


def matches(rules: GeneratedRules) -> list[list[int]]:
    """What the arrays say, test by test."""
    found = []
    for row in rules.events.tolist():
        held = []
        for clause in range(len(rules.offsets) - 1):
            for test in range(rules.offsets[clause], rules.offsets[clause + 1]):
                value = row[rules.attribute[test]]
                values = rules.value[rules.value_offsets[test] : rules.value_offsets[test + 1]].tolist()
                if rules.kind[test] == BETWEEN:
                    holds = values[0] <= value <= values[1]
                else:
                    holds = (value in values) != (rules.kind[test] == NOT_IN)
                if value < 0 or not holds:
                    break
            else:
                held.append(clause if rules.owner is None else int(rules.owner[clause]))
        found.append(sorted(set(held)))
    return found


def check(rules: GeneratedRules) -> None:
    expected, dicts = matches(rules), rules.event_dicts()
    index = MatchIndex()
    rules.add_to(index)
    found = index.match_many(dicts)
    assert [sorted(found[place]) for place in range(EVENTS)] == expected
    written = MatchIndex()
    written.add_many(range(rules.count), rules.texts(), atomic=True)
    found = written.match_many(dicts)
    assert [sorted(found[place]) for place in range(EVENTS)] == expected


@pytest.mark.parametrize("name", CLASSES)
def test_rules_of_users(name: str) -> None:
    rules = user_rules(name, RULES, events=EVENTS)
    assert rules.count == RULES and len(rules.events) == EVENTS
    check(rules)


@pytest.mark.parametrize("setting", SETTINGS, ids=[str(number) for number in range(len(SETTINGS))])
def test_rules_of_settings(setting: object) -> None:
    check(generate(setting, EVENTS))  # type: ignore[arg-type]


def test_the_same_seed_is_the_same_rules() -> None:
    for name in CLASSES:
        one, again = (user_rules(name, 50, events=4) for _ in range(2))
        assert np.array_equal(one.value, again.value) and np.array_equal(one.events, again.events)
    assert settings(8, 10_000, seed=2) == settings(8, 10_000, seed=2) != settings(8, 10_000, seed=3)


def test_settings_cover_what_they_should() -> None:
    made = settings(40, 1_000_000)
    assert min(each.rules for each in made) < 2000 and max(each.rules for each in made) > 500_000
    assert {each.attributes for each in made} == {1, 2, 5, 10, 20, 60, 200, 1000}
    assert {each.matched for each in made} == {0.0, 0.001, 0.01, 0.1}
    for share in ("sets", "negated", "ranges", "patterns", "repeated"):
        assert any(getattr(each, share) > 0 for each in made) and any(getattr(each, share) == 0 for each in made)


def test_profiles_decide_how_much_matches() -> None:
    """With the same rules otherwise, profiles of a tenth make events match far more."""
    setting = next(each for each in settings(40, 2000) if each.matched == 0.1 and each.tests > 2)
    rules = generate(setting, 40)
    share = np.mean([len(each) for each in matches(rules)]) / rules.count
    assert 0.02 < share < 0.5
