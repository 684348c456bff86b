"""Represents constants that could not be read until the predicate around them is known."""

from __future__ import annotations

from ray_pubsub.errors import ExpressionTypeError
from ray_pubsub.language.terms import Term
from ray_pubsub.language.tree import Operand

__all__ = ["BrokenConstant", "check_readable", "is_broken"]


class BrokenConstant:
    """Stands for a constant that cannot be read until its predicate is known, so that the error can name the predicate."""

    def __init__(self, text: str, problem: str) -> None:
        self.text = text
        self.problem = problem

    def __repr__(self) -> str:
        return self.text


def is_broken(term: Term) -> bool:
    """Returns whether the term is a constant that could not be read."""
    return isinstance(term, Operand) and isinstance(term.plain, BrokenConstant)


def check_readable(term: Term, around: str) -> None:
    """Raises ExpressionTypeError if the term is a constant that could not be read. `around`: where it stands."""
    if isinstance(term, Operand) and isinstance(term.plain, BrokenConstant):
        raise ExpressionTypeError(around, term.plain.problem, term.place)
