"""Plain evaluation of all rules, one by one (the paper's SF): what every answer is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray_pubsub.errors import EventError
from ray_pubsub.language.parser import parse
from ray_pubsub.language.tree import Tree
from ray_pubsub.language.truth import truth
from ray_pubsub.model.dict_events import flatten

LEVELS = ["low", "normal", "high", "critical"]


class PlainRules:
    """Rules in a dict."""

    def __init__(self, levels: list[str] = LEVELS) -> None:
        self.levels = levels
        self.rules: dict[str | int, tuple[int, Tree]] = {}

    def add(self, id: str | int, level: str, expression: str | Tree) -> None:
        tree = parse(expression) if isinstance(expression, str) else expression
        self.rules[id] = (self.levels.index(level), tree)

    def remove(self, id: str | int) -> bool:
        return self.rules.pop(id, None) is not None

    def number(self, event: Mapping[str, Any]) -> int:
        values = flatten(event)
        matching = [level for level, tree in self.rules.values() if truth(tree, values) is True]
        return max(matching, default=0)

    def priority(self, event: Mapping[str, Any]) -> str:
        try:
            return self.levels[self.number(event)]
        except EventError:
            return self.levels[0]
