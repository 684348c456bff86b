"""Builds comparisons of a value with every element of a list: `5 < any(scores)`, `'a' = all(tags)`, `price < all(prices)`."""

from __future__ import annotations

from ray_pubsub.errors import ExpressionTypeError
from ray_pubsub.language.building.constants import check_readable
from ray_pubsub.language.building.term_kinds import check_may_be, kind_of
from ray_pubsub.language.printer import computed_name, write, write_term
from ray_pubsub.language.terms import Call, Listed, Term
from ray_pubsub.language.tree import BooleanAttribute, Holds, Operand, Tree
from ray_pubsub.model.values import Kind

__all__ = ["QUANTIFIERS", "check_has_value", "quantified", "relation"]

QUANTIFIERS = {"any", "all"}


def check_has_value(term: Term) -> None:
    """Raises ExpressionTypeError for `any(…)` and `all(…)`, which are valid only beside a comparison."""
    if isinstance(term, Call) and term.function in QUANTIFIERS:
        raise ExpressionTypeError(write_term(term), f"{term.function}(…) stands only beside a comparison")


def quantified(left: Term, operator: str, quantifier: Call) -> Tree:
    """Builds `left operator any(list)`, or all. `= any` is list_contains. A comparison without a constant is a term of its own, true or
    false."""
    text = f"{write_term(left)} {operator} {write_term(quantifier)}"
    subject = quantifier.arguments[0]
    check_readable(left, text)
    check_has_value(left)
    if isinstance(left, Operand) or not isinstance(subject, Listed):
        check_may_be(subject, Kind.LIST, text, f"{quantifier.function}(…) takes an attribute that is a list")
    if not isinstance(left, Operand):
        if kind_of(left) is Kind.LIST:
            raise ExpressionTypeError(text, f"what is compared with {quantifier.function}(…) is one value, not a list")
        return BooleanAttribute(computed_name(relation(left, operator, quantifier)))
    function = f"{operator} {quantifier.function}"
    leaf = Holds("list_contains" if function == "= any" else function, (computed_name(subject),), (left,))
    assert write(leaf)
    return leaf


def relation(left: Term, operator: str, right: Term) -> Call:
    """Returns the term of a comparison of two terms; `right` may be any(…) or all(…)."""
    if not (isinstance(right, Call) and right.function in QUANTIFIERS):
        return Call(operator, (left, right))
    if operator == "=" and right.function == "any":
        return Call("list_contains", (right.arguments[0], left))
    return Call(f"{operator} {right.function}", (left, right.arguments[0]))
