"""Rules that come, change and go: the answers are always those of the rules there are."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ray_pubsub import PriorityRules
from tests.unit.priority.plain_rules import LEVELS, PlainRules

SITES = ["A", "B", "C", "D", "E"]


def random_text(random_: Random) -> str:
    low = random_.randrange(40)
    forms = [
        f"x >= {low} and x < {low + random_.randrange(1, 15)}",
        f"x > {low} and site in ('{random_.choice(SITES)}', '{random_.choice(SITES)}')",
        f"x between {low} and {low + 3} and y != {random_.randrange(5)} and site = '{random_.choice(SITES)}'",
        f"y = {random_.randrange(8)} or (x <= {low} and site is null)",
        f"not (x < {low}) and y not in (1, {random_.randrange(8)})",
        f"name like '%{random_.choice('abc')}%' and x > {low}",
        f"flag and z < {low}",
        "site is not null",
        "x is null and y is null",
    ]
    return random_.choice(forms)


def random_event(random_: Random) -> dict[str, Any]:
    event = {
        "x": random_.choice([random_.randrange(45), random_.random() * 45, None, "text"]),
        "y": random_.choice([random_.randrange(9), None]),
        "z": random_.choice([random_.randrange(45), None]),
        "site": random_.choice([*SITES, "F", None]),
        "name": random_.choice(["abc", "xyz", "cab", None]),
        "flag": random_.choice([True, False, None]),
    }
    return {name: value for name, value in event.items() if random_.random() < 0.9}


def check(rules: PriorityRules, plain: PlainRules, random_: Random) -> None:
    events = [random_event(random_) for _ in range(30)]
    found = rules.levels_of(events).levels.tolist()
    expected = [plain.number(event) for event in events]
    if rules.confirm:
        assert found == expected
    else:
        assert all(got >= true for got, true in zip(found, expected, strict=True))
    assert set(rules) == set(plain.rules)


@pytest.mark.parametrize("confirm", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_random_sequences(seed: int, confirm: bool) -> None:
    random_ = Random(seed)
    rules, plain = PriorityRules(LEVELS, confirm=confirm, signatures=1 << 13), PlainRules()
    for step in range(120):
        action = random_.random()
        if action < 0.5:
            identity, level, text = random_.randrange(40), random_.choice(LEVELS), random_text(random_)
            rules.add(identity, level, text)
            plain.add(identity, level, text)
        elif action < 0.8:
            identity = random_.randrange(40)
            assert rules.remove(identity) == plain.remove(identity)
        elif action < 0.9:
            ids = [random_.randrange(40) for _ in range(6)]  # perhaps the same one twice: the last wins
            levels, texts = [random_.choice(LEVELS) for _ in ids], [random_text(random_) for _ in ids]
            assert rules.add_many(ids, levels, texts).added == len(set(ids))
            for identity, level, text in zip(ids, levels, texts, strict=True):
                plain.add(identity, level, text)
        elif action < 0.95:
            low = random_.randrange(40)
            table = pa.table(
                {
                    "id": [7, 7, 100],
                    "level": ["high", "high", "normal"],
                    "attribute": ["x", "y", "z"],
                    "low": [low, 2, None],
                    "high": [low + 5, 6, low],
                }
            )
            assert rules.add_predicates(table)
            plain.add(7, "high", f"x between {low} and {low + 5} and y between 2 and 6")
            plain.add(100, "normal", f"z <= {low}")
        else:
            rules.rebuild()
        if step % 4 == 0:
            check(rules, plain, random_)
    assert rules.stats().rebuilds > 1


@pytest.mark.parametrize("confirm", [True, False])
def test_what_was_added_can_be_taken_out_without_a_trace(confirm: bool) -> None:
    """Counters and counts go back to zero: no bit is left, so no false positive either."""
    random_ = Random(5)
    rules = PriorityRules(LEVELS, confirm=confirm)
    texts = [random_text(random_) for _ in range(300)]
    rules.add_many(range(300), [random_.choice(LEVELS) for _ in texts], texts)
    rebuilds = rules.stats().rebuilds
    order = list(range(300))
    random_.shuffle(order)
    for identity in order:
        assert rules.remove(identity)
    stats = rules.stats()
    assert stats.rebuilds == rebuilds
    assert [level.keys for level in stats.filters.values()] == [0, 0, 0]
    assert [level.fill for level in stats.filters.values()] == [0, 0, 0]
    assert all(not any(vector.covered.values()) for vector in stats.vectors)
    assert rules.priorities([random_event(random_) for _ in range(50)]) == ["low"] * 50
    assert len(rules) == 0


def test_replacing_changes_level_and_expression_at_once() -> None:
    rules = PriorityRules(LEVELS)
    rules.add("r", "critical", "x > 5")
    rules.add("r", "normal", "x < 5")
    assert [rules.priority({"x": x}) for x in (9, 1)] == ["low", "normal"]
    assert (len(rules), rules.level("r"), rules.expression("r")) == (1, "normal", "x < 5")


def test_a_rule_of_the_default_level_changes_nothing() -> None:
    rules = PriorityRules(LEVELS)
    rules.add("r", "low", "x > 5")
    assert rules.priority({"x": 9}) == "low"
    assert "r" in rules
    rules.add("r", "high", "x > 5")
    assert rules.priority({"x": 9}) == "high"
    rules.add("r", "low", "x > 5")
    assert rules.priority({"x": 9}) == "low"


def test_the_highest_level_wins() -> None:
    rules = PriorityRules(LEVELS)
    rules.add(1, "normal", "x > 0")
    rules.add(2, "critical", "x > 10 and y > 0")
    rules.add(3, "high", "y > 0")
    events = [{"x": 11, "y": 1}, {"x": 11}, {"x": 1, "y": 1}, {"y": 1}, {}]
    assert rules.priorities(events) == ["critical", "normal", "high", "high", "low"]


@pytest.mark.parametrize("count", [2, 3, 64])
def test_as_many_levels_as_a_word_has_bits(count: int) -> None:
    names = [f"level {number}" for number in range(count)]
    rules = PriorityRules(names)
    unconfirmed = PriorityRules(names, confirm=False, false_positive_rate=1e-6)
    for each in (rules, unconfirmed):
        each.add_many(range(count), names, [f"x >= {number}" for number in range(count)])
    events = [{"x": number} for number in range(count)]
    assert rules.priorities(events) == names
    assert unconfirmed.priorities(events) == names


def test_single_adds_are_put_into_the_bins_there_are() -> None:
    """No rebuild for each of them, and no false negative from bins that do not fit."""
    random_ = Random(9)
    rules, plain = PriorityRules(LEVELS, confirm=False), PlainRules()
    texts = [f"x >= {number} and x < {number + 1}" for number in range(0, 2000, 10)]
    rules.add_many(range(len(texts)), ["high"] * len(texts), texts)
    for number, text in enumerate(texts):
        plain.add(number, "high", text)
    before = rules.stats().rebuilds
    for number in range(40):
        low = random_.randrange(2000) + 0.5
        text = random_.choice(
            [f"x > {low} and x < {low + 2}", f"other = {number}", f"x = {low} and other < 3", "x = 'a'"]
        )
        rules.add(f"new {number}", "critical", text)
        plain.add(f"new {number}", "critical", text)
    assert rules.stats().rebuilds == before
    events = [{"x": value / 4, "other": value % 50} for value in range(0, 8000, 7)] + [{"x": "a"}, {"x": "b"}]
    found = rules.levels_of(events).levels
    expected = np.array([plain.number(event) for event in events])
    assert (found >= expected).all()
    rules.rebuild()
    assert rules.measure(events).by_discretization <= int((found > expected).sum())


def test_filters_grow_without_losing_anything() -> None:
    rules = PriorityRules(["low", "high"], confirm=False)
    rules.add_many(range(5000), ["high"] * 5000, [f"x = {number} and y = {number % 7}" for number in range(5000)])
    values = []
    for number in range(400):  # the bins are there already; the cells are new
        x, y = number * 3 % 5000, number % 7
        rules.add(10_000 + number, "high", f"x between {x} and {x + 200} and y = {y}")
        values.append({"x": x + 100, "y": y})
    stats = rules.stats()
    assert stats.filters_grown >= 1
    assert stats.rebuilds == 1
    assert set(rules.priorities(values)) == {"high"}
    assert stats.expected_rate <= 0.011


def test_counts_that_are_full_stay_full() -> None:
    """More rules on one cell than a count can tell: the cell stays, and rules that remain are never missed."""
    count = 70_000
    table = pa.table(
        {
            "id": np.arange(count),
            "level": pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), ["high"]),
            "attribute": pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), ["x"]),
            "low": np.full(count, 5),
            "high": np.full(count, 6),
        }
    )
    rules = PriorityRules(["low", "high"], confirm=False)
    rules.add_predicates(table)
    rules.remove_many(range(count - 1))
    assert rules.priorities([{"x": 5}, {"x": 7}]) == ["high", "low"]
