"""Errors say what is wrong and what to do, and nothing changes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ray_pubsub import PriorityRules
from ray_pubsub.errors import (
    EventError,
    ExpressionSyntaxError,
    RejectedSubscriptionsError,
    SettingError,
    SubscriptionIdError,
    TableError,
    UnknownLevelError,
    UnknownRuleError,
)
from ray_pubsub.priority import Bins, Categories, Function, Quantiles, Steps
from tests.unit.priority.plain_rules import LEVELS


@pytest.mark.parametrize(
    "levels",
    [[], ["one"], "low", ["low", "low"], ["low", ""], ["low", 3], [f"l{number}" for number in range(65)], None],
)
def test_bad_levels(levels: Any) -> None:
    with pytest.raises(SettingError) as caught:
        PriorityRules(levels)
    assert caught.value.setting == "levels"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("false_positive_rate", 0),
        ("false_positive_rate", 1),
        ("false_positive_rate", "0.1"),
        ("signatures", 10),
        ("signatures", 1 << 30),
        ("vectors", -1),
        ("vectors", 1 << 20),
        ("cache", -1),
        ("cache", 1.5),
        ("limits", 5),
        ("discretizers", [1]),
        ("discretizers", {"x": 5}),
        ("discretizers", {5: Quantiles()}),
    ],
)
def test_bad_settings(name: str, value: Any) -> None:
    with pytest.raises(SettingError) as caught:
        PriorityRules(LEVELS, **{name: value})
    assert caught.value.setting == name


@pytest.mark.parametrize(
    "make",
    [
        lambda: Bins([]),
        lambda: Bins("abc"),
        lambda: Bins([1, "a"]),
        lambda: Bins([None]),
        lambda: Bins([object()]),
        lambda: Categories([1, True]),
        lambda: Categories(list(range(10_000))),
        lambda: Steps(0),
        lambda: Steps(-1),
        lambda: Steps(float("inf")),
        lambda: Steps("1"),  # type: ignore[arg-type]
        lambda: Quantiles(0),
        lambda: Quantiles(10**6),
        lambda: Function(5, 3),  # type: ignore[arg-type]
        lambda: Function(len, 0),
    ],
)
def test_bad_discretizers(make: Any) -> None:
    with pytest.raises(SettingError):
        make()


def test_bad_rules_change_nothing() -> None:
    rules = PriorityRules(LEVELS)
    rules.add("r", "high", "x > 5")
    with pytest.raises(UnknownLevelError, match=r"no level 'urgent'; choose one of 'low', 'normal'") as caught:
        rules.add("r", "urgent", "x > 5")
    assert (caught.value.level, caught.value.levels) == ("urgent", tuple(LEVELS))
    with pytest.raises(ExpressionSyntaxError):
        rules.add("r", "critical", "x >")
    with pytest.raises(SubscriptionIdError):
        rules.add(1.5, "critical", "x > 5")  # type: ignore[arg-type]
    with pytest.raises(SubscriptionIdError):
        rules.remove(None)  # type: ignore[arg-type]
    assert rules.level("r") == "high"
    assert rules.priority({"x": 6}) == "high"
    assert rules.stats().rebuilds == 1


def test_unknown_rules() -> None:
    rules = PriorityRules(LEVELS)
    assert not rules.remove("r")
    assert "r" not in rules
    assert [] not in rules
    for ask in (rules.level, rules.expression):
        with pytest.raises(UnknownRuleError, match="there is no rule 'r'") as caught:
            ask("r")
        assert caught.value.id == "r"


def test_many_with_some_bad_ones() -> None:
    rules = PriorityRules(LEVELS)
    ids = ["a", None, "c", "d", "a"]
    levels = ["high", "high", "urgent", "high", "normal"]
    texts = ["x > 1", "x > 1", "x > 1", "x >", "x > 2"]
    report = rules.add_many(ids, levels, texts)  # type: ignore[arg-type]
    assert report.added == 1
    assert [(bad.position, type(bad.error)) for bad in report.rejections] == [
        (1, SubscriptionIdError),
        (2, UnknownLevelError),
        (3, ExpressionSyntaxError),
    ]
    assert rules.level("a") == "normal"
    with pytest.raises(RejectedSubscriptionsError):
        rules.add_many(["z", "y"], ["high", "urgent"], ["x > 1", "x > 1"], atomic=True)
    assert "z" not in rules
    with pytest.raises(SettingError, match="2 ids and 1 levels and 2 expressions"):
        rules.add_many(["z", "y"], ["high"], ["x > 1", "x > 1"])
    with pytest.raises(SettingError, match="levels"):
        rules.add_many(["z"], "high", ["x > 1"])


def test_many_as_a_table() -> None:
    rules = PriorityRules(LEVELS)
    report = rules.add_many(pa.table({"id": ["a", "b"], "level": ["high", "urgent"], "expression": ["x > 1", "x > 2"]}))
    assert (report.added, [bad.id for bad in report.rejections]) == (1, ["b"])
    with pytest.raises(TableError, match="'level': missing"):
        rules.add_many(pa.table({"id": ["a"], "expression": ["x > 1"]}))


def test_bad_events() -> None:
    rules = PriorityRules(LEVELS)
    rules.add("r", "high", "x > 5")
    with pytest.raises(EventError) as caught:
        rules.priority({"x": object()}, strict=True)
    assert caught.value.attribute == "x"
    with pytest.raises(EventError):
        rules.priority([{"x": 1}])  # type: ignore[arg-type]
    events = [{"x": 9}, {"x": object()}, {"x": 1}, {"x": 7}]
    found = rules.levels_of(events, strict=True)
    assert found.to_list() == rules.priorities(events, strict=True) == ["high", "low", "low", "high"]
    assert [error.position for error in found.errors] == [1]
    assert (len(found), found[0], list(found)[3]) == (4, "high", "high")
    assert found.counts() == {"low": 2, "normal": 0, "high": 2, "critical": 0}
    assert repr(found) == "PriorityBatch(low: 2, normal: 0, high: 2, critical: 0, 1 bad event)"
    assert rules.levels_of([]).to_list() == []
    assert rules.levels_of([{"x": 9, "id": "e"}], event_id="id").event_ids.tolist() == ["e"]
    with pytest.raises(EventError):
        rules.priorities("text")


def test_rules_with_terms_and_lists_are_matched_exactly() -> None:
    rules = PriorityRules(LEVELS)
    rules.add("t", "high", "lower(name) = 'x' and price * 2 > 5")
    rules.add("l", "normal", "list_contains(tags, 'a')")
    events: list[dict[str, Any]] = [
        {"name": "X", "price": 3, "tags": ["a"]},
        {"name": "X", "price": 2, "tags": ["a"]},
        {"tags": []},
        {"name": 5},
    ]
    assert rules.priorities(events) == ["high", "normal", "low", "low"]
    assert rules.priority(events[0]) == "high"
