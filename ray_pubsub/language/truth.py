"""The meaning of an expression: SQL's three-valued logic, one event at a time. This is the specification.

True, False, or None for unknown. A comparison with an absent attribute, with null, or between different kinds is
unknown; a subscription matches exactly when its expression is True. Written to be read, not to be fast.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard

from ray_pubsub.language.functions.holding import holds
from ray_pubsub.language.functions.table import call
from ray_pubsub.language.patterns import compile_regexp, like_holds
from ray_pubsub.language.terms import NOW, Attribute, Call, Condition, Listed, Term, is_computed, term_of
from ray_pubsub.language.tree import (
    And,
    Between,
    BooleanAttribute,
    Comparison,
    Constant,
    Holds,
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

__all__ = ["Event", "truth", "value_of", "value_of_term"]

Event = Mapping[str, Value]
"""Maps attributes to values; an absent attribute is missing. Under terms.NOW it may have the value of now()."""

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def truth(tree: Tree, event: Event) -> bool | None:
    """Returns whether the expression is true, false or unknown (None) for the event."""
    match tree:
        case And(children):
            return _all(truth(child, event) for child in children)
        case Or(children):
            return _not(_all(_not(truth(child, event)) for child in children))
        case Not(child):
            return _not(truth(child, event))
        case Comparison(attribute, symbol, operand):
            return _compare(value_of(attribute, event), symbol, operand)
        case Between(attribute, low, high, negated):
            value = value_of(attribute, event)
            inside = _and(_compare(value, ">=", low), _compare(value, "<=", high))
            return _not(inside) if negated else inside
        case In(attribute, members, negated):
            value = value_of(attribute, event)
            found = _any_equal(value, members)
            return _not(found) if negated else found
        case Like(attribute, pattern, escape, negated):
            value = value_of(attribute, event)
            found = like_holds(pattern.plain, escape, value.plain) if _is_string(value) else None
            return _not(found) if negated else found
        case Regexp(attribute, pattern, negated):
            value = value_of(attribute, event)
            found = compile_regexp(pattern.plain).search(value.plain) is not None if _is_string(value) else None
            return _not(found) if negated else found
        case IsNull(attribute, negated):
            return (value_of(attribute, event) is None) != negated
        case BooleanAttribute(attribute):
            return _compare(value_of(attribute, event), "=", Operand(Kind.BOOLEAN, True))
        case Holds():
            return holds(tree, [value_of(name, event) for name in tree.attributes], truth, event.get(NOW))
        case Constant(answer):
            return answer


def value_of(name: str, event: Event) -> Value | None:
    """Returns what a predicate tests: the value of an attribute, or of the term of a computed name."""
    return value_of_term(term_of(name), event) if is_computed(name) else event.get(name)


def value_of_term(term: Term, event: Event) -> Value | None:
    """Returns the value of a term; None if it is absent or unknown."""
    match term:
        case Attribute(name):
            return value_of(name, event)
        case Operand(kind, plain):
            return None if kind is None else Value(kind, plain)
        case Condition(tree):
            answer = truth(tree, event)
            return None if answer is None else Value(Kind.BOOLEAN, answer)
        case Listed(members):
            return Value(Kind.LIST, tuple(value_of_term(member, event) for member in members))
        case Call("now"):
            return event.get(NOW)
        case Call(function, arguments):
            return call(function, [value_of_term(argument, event) for argument in arguments])


def _compare(value: Value | None, symbol: str, operand: Operand) -> bool | None:
    if value is None or value.kind is not operand.kind:
        return None
    return COMPARE[symbol](value.plain, operand.plain)


def _any_equal(value: Value | None, members: tuple[Operand, ...]) -> bool | None:
    answers = [_compare(value, "=", member) for member in members]
    return True if True in answers else (None if None in answers else False)


def _is_string(value: Value | None) -> TypeGuard[Value]:
    return value is not None and value.kind is Kind.STRING


def _all(answers: Iterable[bool | None]) -> bool | None:
    """Returns False if one answer is, else unknown if one is. Answers after a False are not evaluated."""
    unknown = False
    for answer in answers:
        if answer is False:
            return False
        unknown = unknown or answer is None
    return None if unknown else True


def _and(left: bool | None, right: bool | None) -> bool | None:
    return False if left is False or right is False else (None if left is None or right is None else True)


def _not(answer: bool | None) -> bool | None:
    return None if answer is None else not answer
