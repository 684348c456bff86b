"""Explains why a subscription did or did not match an event: the expression's tree with the truth of every part."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ray_pubsub.language.printer import show_value, write, write_subject
from ray_pubsub.language.terms import NOW, attributes_of, attributes_of_name, is_computed
from ray_pubsub.language.tree import And, Between, Comparison, Constant, Holds, In, Not, Or, Tree, operands
from ray_pubsub.language.truth import Event, truth, value_of
from ray_pubsub.model.attribute_tree import AttributeTree
from ray_pubsub.model.dict_events import flatten
from ray_pubsub.model.values import Kind, Value

__all__ = ["Explanation", "explain_event", "explain_tree", "on_one_line"]

MARKS = {True: "✓", False: "✗", None: "?"}
LONGEST_VALUE = 80
"""The most characters of an event's value that are shown."""
MOST_OPERANDS = 10
"""The most attributes of one term whose values are shown."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One part of an expression: how it is written, whether it is true, false or unknown (None), and why. Print it to read it."""

    expression: str
    truth: bool | None
    reason: str
    parts: tuple[Explanation, ...] = ()

    def __bool__(self) -> bool:
        """Whether the expression matched."""
        return self.truth is True

    @property
    def matched(self) -> bool:
        return self.truth is True

    def predicates(self) -> Iterator[Explanation]:
        """Yields the predicates, in the order of the text."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.predicates()

    def __str__(self) -> str:
        return "\n".join(self._lines(0))

    def _lines(self, depth: int) -> Iterator[str]:
        reason = f"   ({self.reason})" if self.reason else ""
        yield f"{'  ' * depth}{MARKS[self.truth]} {self.expression}{reason}"
        for part in self.parts:
            yield from part._lines(depth + 1)


def explain_event(tree: Tree, event: Mapping[str, Any]) -> Explanation:
    """Explains an expression on an event as it was given. Raises EventError."""
    values = flatten(event, AttributeTree(attributes_of(tree)), [])
    values[NOW] = Value(Kind.TIMESTAMP, time.time_ns() // 1000)
    return explain_tree(tree, values)


def explain_tree(tree: Tree, event: Event) -> Explanation:
    """Explains an expression on an event."""
    answer = truth(tree, event)
    match tree:
        case And(children):
            return Explanation("all of", answer, "", tuple(explain_tree(child, event) for child in children))
        case Or(children):
            return Explanation("any of", answer, "", tuple(explain_tree(child, event) for child in children))
        case Not(child):
            return Explanation("not", answer, "", (explain_tree(child, event),))
        case Constant():
            return Explanation(write(tree), answer, "")
        case _:
            if isinstance(tree, Holds):
                return Explanation(write(tree), answer, _reason_of_function(tree, event))
            value = value_of(tree.attribute, event)
            reason = "absent" if value is None else f"is {on_one_line(show_value(value))}"
            if is_computed(tree.attribute):
                reason = f"{write_subject(tree.attribute)} {'is unknown' if value is None else reason}"
            if answer is None and value is not None:
                comparable = isinstance(tree, Comparison | Between | In) and value.kind in {
                    each.kind for each in operands(tree)
                }
                reason += ", compared with null" if comparable else f", a {value.kind}: cannot be compared"
            if is_computed(tree.attribute):
                reason += _operands_of([tree.attribute], event)
            return Explanation(write(tree), answer, reason)


def _reason_of_function(leaf: Holds, event: Event) -> str:
    """Returns the values of the attributes that a function looks at."""
    shown = ", ".join(_shown(name, event) for name in leaf.attributes)
    return shown + _operands_of(list(filter(is_computed, leaf.attributes)), event)


def _operands_of(names: list[str], event: Event) -> str:
    """Returns the values of the attributes that terms are made of, in the order of the text."""
    text = " ".join(map(write_subject, names))
    attributes = {attribute for name in names for attribute in attributes_of_name(name)}
    ordered = sorted(attributes, key=lambda attribute: (_place_in(text, write_subject(attribute)), attribute))
    shown = [_shown(attribute, event) for attribute in ordered[:MOST_OPERANDS]]
    more = [f"and {len(ordered) - MOST_OPERANDS} more"] if len(ordered) > MOST_OPERANDS else []
    return f"; {', '.join([*shown, *more])}" if shown else ""


def _place_in(text: str, name: str) -> int:
    found = re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", text)
    return len(text) if found is None else found.start()


def _shown(name: str, event: Event) -> str:
    value = value_of(name, event)
    return f"{write_subject(name)} is {'absent' if value is None else on_one_line(show_value(value))}"


def on_one_line(text: str) -> str:
    """The beginning of a value, with line ends and other control characters written out, so that a tree stays readable.

    >>> print(on_one_line("first line\\nsecond line"))
    first line\\nsecond line
    """
    shown = "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text[: LONGEST_VALUE + 1]
    )
    return shown if len(shown) <= LONGEST_VALUE else f"{shown[:LONGEST_VALUE]}…"
