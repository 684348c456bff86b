"""Finds the kinds that a term's values may have, and refuses a term where it can never have the kind that is wanted.

What an index derives from a predicate, such as the number of an address, is parsed again. So whatever is accepted here must be accepted
there, and both have the same check.
"""

from __future__ import annotations

from typing import TypeGuard

from ray_pubsub.errors import ExpressionTypeError
from ray_pubsub.language.functions.table import FUNCTIONS
from ray_pubsub.language.printer import write_term
from ray_pubsub.language.terms import Attribute, Call, Condition, Listed, Term, parts_of
from ray_pubsub.language.tree import Operand
from ray_pubsub.model.values import Kind

__all__ = ["CHOOSING", "ELEMENT_KINDS", "EVERY_KIND", "check_may_be", "is_sum", "kind_of", "of_a_sum", "possible_kinds"]


ELEMENT_KINDS = {str(kind): kind for kind in Kind if kind is not Kind.LIST}
"""The kinds of elements that list_min and list_max may be asked for."""


def kind_of(term: Term) -> Kind | None:
    """Returns the kind of the term's values; None if it depends on the event, or if the term is null."""
    match term:
        case Operand(kind):
            return kind
        case Condition():
            return Kind.BOOLEAN
        case Listed():
            return Kind.LIST
        case Attribute():
            return None
        case Call("case", parts):
            return _common([*parts[1:-1:2], parts[-1]])
        case Call("list_min" | "list_max", (_, Operand(Kind.STRING, kind))):
            return ELEMENT_KINDS.get(kind)
        case Call("+" | "-", (left, right)):
            return _of_sum(term.function, kind_of(left), kind_of(right))
        case Call(function, arguments):
            known = FUNCTIONS[function].gives
            return known if known is not None or function not in CHOOSING else _common(list(arguments))


def possible_kinds(term: Term) -> frozenset[Kind]:
    """Returns the kinds that the term's values may have."""
    kind = kind_of(term)
    if kind is not None:
        return frozenset({kind})
    return SUMS if is_sum(term) else EVERY_KIND


def is_sum(term: Term) -> TypeGuard[Call]:
    return isinstance(term, Call) and term.function in ("+", "-")


def check_may_be(subject: Term, kind: Kind, shown: str, reason: str) -> None:
    """Raises ExpressionTypeError with this reason if the term is a constant or can never have this kind."""
    if isinstance(subject, Operand | Listed) or kind not in possible_kinds(subject):
        raise ExpressionTypeError(shown, of_a_sum(subject, kind) if is_sum(subject) else reason)


def of_a_sum(subject: Call, kind: Kind | str) -> str:
    """Returns the reason why a sum or difference is refused where another kind is wanted."""
    reason = f"{subject.function} gives a number or a timestamp, not a {kind}"
    parts = list(parts_of(subject))
    if all(isinstance(part, Attribute) or (isinstance(part, Call) and part.function == "-") for part in parts):
        return f"{reason}; a name that has a '-' is quoted: \"{write_term(subject).replace(' ', '')}\""
    return reason


SUMS, EVERY_KIND = frozenset({Kind.NUMBER, Kind.TIMESTAMP}), frozenset(Kind)


def _of_sum(function: str, left: Kind | None, right: Kind | None) -> Kind | None:
    """Returns the kind of a sum or difference: a timestamp and a number give a timestamp, two timestamps a number."""
    if (left is Kind.TIMESTAMP and right is Kind.TIMESTAMP) or left is right is Kind.NUMBER:
        return Kind.NUMBER
    if left is Kind.NUMBER and function == "-":
        return Kind.NUMBER
    return Kind.TIMESTAMP if Kind.TIMESTAMP in (left, right) and (function == "+" or right is Kind.NUMBER) else None


CHOOSING = {"least", "greatest", "coalesce"}
"""Functions whose value is one of their arguments."""


def _common(terms: list[Term]) -> Kind | None:
    kinds = {kind_of(term) for term in terms if not (isinstance(term, Operand) and term.kind is None)}
    return kinds.pop() if len(kinds) == 1 else None
