"""The meaning of an expression: SQL's three-valued logic, one event at a time. This is the specification.

True, False, or None for unknown. A comparison with an absent attribute, with null, or between different kinds is
unknown; a subscription matches exactly when its expression is True. Written to be read, not to be fast.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from ray_pubsub.language.patterns import compile_regexp, like_to_regexp
from ray_pubsub.language.tree import (
    And,
    Between,
    BooleanAttribute,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Not,
    Operand,
    Or,
    Regexp,
    Tree,
)
from ray_pubsub.model.values import Kind, Value

__all__ = ["Event", "truth"]

Event = Mapping[str, Value]
"""Attribute → value; an absent attribute is not in it."""

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def truth(tree: Tree, event: Event) -> bool | None:
    """Whether the expression is true, false or unknown (None) for the event."""
    match tree:
        case And(children):
            answers = [truth(child, event) for child in children]
            return False if False in answers else (None if None in answers else True)
        case Or(children):
            answers = [truth(child, event) for child in children]
            return True if True in answers else (None if None in answers else False)
        case Not(child):
            return _not(truth(child, event))
        case Comparison(attribute, symbol, operand):
            return _compare(event.get(attribute), symbol, operand)
        case Between(attribute, low, high, negated):
            value = event.get(attribute)
            inside = _and(_compare(value, ">=", low), _compare(value, "<=", high))
            return _not(inside) if negated else inside
        case In(attribute, members, negated):
            value = event.get(attribute)
            found = _any_equal(value, members)
            return _not(found) if negated else found
        case Like(attribute, pattern, escape, negated):
            found = _search(event.get(attribute), like_to_regexp(pattern.plain, escape))
            return _not(found) if negated else found
        case Regexp(attribute, pattern, negated):
            found = _search(event.get(attribute), compile_regexp(pattern.plain))
            return _not(found) if negated else found
        case IsNull(attribute, negated):
            return (attribute not in event) != negated
        case BooleanAttribute(attribute):
            return _compare(event.get(attribute), "=", Operand(Kind.BOOLEAN, True))
        case Constant(answer):
            return answer


def _compare(value: Value | None, symbol: str, operand: Operand) -> bool | None:
    if value is None or value.kind is not operand.kind:
        return None
    return COMPARE[symbol](value.plain, operand.plain)


def _any_equal(value: Value | None, members: tuple[Operand, ...]) -> bool | None:
    answers = [_compare(value, "=", member) for member in members]
    return True if True in answers else (None if None in answers else False)


def _search(value: Value | None, program: Any) -> bool | None:
    if value is None or value.kind is not Kind.STRING:
        return None
    return program.search(value.plain) is not None


def _and(left: bool | None, right: bool | None) -> bool | None:
    return False if left is False or right is False else (None if left is None or right is None else True)


def _not(answer: bool | None) -> bool | None:
    return None if answer is None else not answer
