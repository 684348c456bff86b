"""`5 < any(scores)`, `'a' = all(tags)`: a constant compared with every element of a list."""

from __future__ import annotations

from ray_pubsub.errors import ExpressionTypeError
from ray_pubsub.language.building.constants import check_readable
from ray_pubsub.language.building.term_kinds import kind_of
from ray_pubsub.language.printer import computed_name, write, write_term
from ray_pubsub.language.terms import Call, Listed, Term
from ray_pubsub.language.tree import Holds, Operand, Tree
from ray_pubsub.model.values import Kind
from ray_pubsub.settings import Limits

__all__ = ["QUANTIFIERS", "check_has_value", "quantified"]

QUANTIFIERS = {"any", "all"}


def check_has_value(term: Term) -> None:
    """Raises ExpressionTypeError for `any(…)` and `all(…)`, which mean something only beside a comparison."""
    if isinstance(term, Call) and term.function in QUANTIFIERS:
        raise ExpressionTypeError(write_term(term), f"{term.function}(…) stands only beside a comparison")


def quantified(left: Term, operator: str, quantifier: Call, limits: Limits) -> Tree:
    """`left operator any(list)`, or all. `= any` is list_contains."""
    text = f"{write_term(left)} {operator} {write_term(quantifier)}"
    subject = quantifier.arguments[0]
    if not isinstance(left, Operand):
        raise ExpressionTypeError(text, f"what is compared with {quantifier.function}(…) must be a constant")
    check_readable(left, text)
    if isinstance(subject, Operand | Listed) or kind_of(subject) not in (None, Kind.LIST):
        raise ExpressionTypeError(text, f"{quantifier.function}(…) takes an attribute that is a list")
    function = f"{operator} {quantifier.function}"
    leaf = Holds("list_contains" if function == "= any" else function, (computed_name(subject),), (left,))
    assert write(leaf)
    return leaf
