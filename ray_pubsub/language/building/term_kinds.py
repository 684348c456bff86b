"""Finds the kind of a term's values, where it does not depend on the event."""

from __future__ import annotations

from ray_pubsub.language.functions.table import FUNCTIONS
from ray_pubsub.language.terms import Attribute, Call, Condition, Listed, Term
from ray_pubsub.language.tree import Operand
from ray_pubsub.model.values import Kind

__all__ = ["CHOOSING", "ELEMENT_KINDS", "EVERY_KIND", "kind_of", "possible_kinds"]


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
    return SUMS if isinstance(term, Call) and term.function in ("+", "-") else EVERY_KIND


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
