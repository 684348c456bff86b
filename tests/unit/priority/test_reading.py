"""Rules read of events what they test, and nothing else; an unusable value is absent, unless they are asked to be strict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

from ray_pubsub import PriorityRules
from ray_pubsub.errors import EventError
from tests.unit.priority.plain_rules import LEVELS

RULES = {
    "interval": ("high", "x > 5 and process.name = 'sh'"),
    "pattern": ("critical", "text like '%needle%'"),
    "term": ("normal", "lower(name) = 'ann'"),
    "absence": ("normal", "missing is null and other = 1"),
}
EVENTS: list[tuple[dict[str, Any], str]] = [
    ({"x": 6, "process": {"name": "sh", "raw": b"1"}, "unused": b"1"}, "high"),
    ({"x": 6, "process.name": "sh", "unused": object()}, "high"),
    ({"text": "a needle", "unused": [b"1"]}, "critical"),
    ({"name": "ANN", "x": b"1"}, "normal"),
    ({"missing": b"1", "other": 1}, "normal"),
    ({"x": 2**70, "process": {"name": "sh"}}, "low"),
]


def made(confirm: bool) -> PriorityRules:
    rules = PriorityRules(LEVELS, confirm=confirm)
    for id, (level, text) in RULES.items():
        rules.add(id, level, text)
    return rules


@pytest.mark.parametrize("confirm", [True, False])
def test_only_what_rules_test_is_read(confirm: bool) -> None:
    rules = made(confirm)
    for event, level in EVENTS:
        assert rules.priority(event) == level
        assert rules.explain(event).level == level
    events = [event for event, _ in EVENTS]
    assert rules.priorities(events) == [level for _, level in EVENTS]
    assert rules.priorities(iter(events)) == [level for _, level in EVENTS]
    found = rules.levels_of(events)
    assert found.errors == []
    assert [(warning.position, warning.attribute) for warning in found.warnings] == [(3, "x"), (4, "missing"), (5, "x")]
    assert rules.measure(events).events == len(events)
    frame = pd.DataFrame({"x": [7, 1], "process.name": ["sh", "sh"], "unused": [b"1", b"2"]})
    assert rules.priorities(frame) == ["high", "low"]


def test_strict_checks_all_attributes() -> None:
    rules = made(True)
    event = EVENTS[0][0]
    with pytest.raises(EventError, match=r"process\.raw"):
        rules.priority(event, strict=True)
    assert rules.priorities([event, {"text": "needle"}], strict=True) == ["low", "critical"]
    found = rules.levels_of([event, {"text": "needle"}], strict=True)
    assert [(error.position, error.attribute) for error in found.errors] == [(0, "process.raw")]
    assert found.warnings == []


@pytest.mark.parametrize("text", ["y = 1", "y like '%1%' or y = 1", "y + 1 = 2", "z.y = 1"])
def test_attributes_of_later_rules_are_read(text: str) -> None:
    rules = made(True)
    event = {"y": 1, "z": {"y": 1}}
    assert rules.priority(event) == "low"
    rules.add("later", "critical", text)
    assert rules.priority(event) == "critical"
    assert rules.priorities([event] * 3) == ["critical"] * 3
    rules.rebuild()
    assert rules.priority(event) == "critical"


def test_a_rule_added_while_an_event_is_read_misses_nothing() -> None:
    """The event was read without the new rule's attribute, so it is read again."""
    rules = made(True)

    class Event(dict[str, Any]):
        def get(self, key: Any, default: Any = None) -> Any:
            rules.add("later", "critical", f"{self['new']} = 1")
            return super().get(key, default)

        def items(self) -> Any:
            self.get("x")
            return super().items()

    def given() -> Iterator[dict[str, Any]]:
        yield Event(x=1, z=1, new="z")
        yield {"x": 1}

    assert rules.priority(Event(x=1, y=1, new="y")) == "critical"
    assert rules.priorities(given()) == ["critical", "low"]
