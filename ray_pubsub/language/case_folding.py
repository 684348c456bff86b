"""Rewrites expressions to ignore case: both sides of every comparison of texts are in lower case, as with `ilike`.

`name = 'Ann'` becomes `lower(name) = 'ann'`. Comparisons of two attributes, regular expressions (which have `(?i)`) and functions that
search lists for texts are not changed; the condition of `exists` is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ray_pubsub.language.functions.folding import simple_lower
from ray_pubsub.language.printer import computed_name
from ray_pubsub.language.terms import Call, term_of
from ray_pubsub.language.tree import And, Between, Comparison, Holds, In, Like, Not, Operand, Or, Tree
from ray_pubsub.model.values import Kind

__all__ = ["fold_case"]


def fold_case(tree: Tree) -> Tree:
    """Returns the same expression, ignoring case."""
    match tree:
        case And(children):
            return And(tuple(map(fold_case, children)))
        case Or(children):
            return Or(tuple(map(fold_case, children)))
        case Not(child):
            return Not(fold_case(child))
        case Comparison(attribute, _, operand) if _is_text(operand):
            return replace(tree, attribute=_lower(attribute), operand=_folded(operand))
        case Between(attribute, low, high) if _is_text(low) or _is_text(high):
            return replace(tree, attribute=_lower(attribute), low=_folded(low), high=_folded(high))
        case In(attribute, members) if any(map(_is_text, members)):
            return replace(tree, attribute=_lower(attribute), members=tuple(map(_folded, members)))
        case Like(attribute, pattern, escape):
            character = escape and simple_lower(escape)
            return replace(tree, attribute=_lower(attribute), pattern=_folded(pattern), escape=character)
        case Holds() if tree.condition is not None:
            return replace(tree, condition=fold_case(tree.condition))
        case _:
            return tree


def _is_text(operand: Operand) -> bool:
    return operand.kind == Kind.STRING


def _lower(name: str) -> str:
    """Returns the name of the tested attribute or term in lower case."""
    term = term_of(name)
    return name if isinstance(term, Call) and term.function == "lower" else computed_name(Call("lower", (term,)))


def _folded(operand: Operand) -> Operand:
    if not _is_text(operand):
        return operand
    return replace(operand, plain=simple_lower(operand.plain), made=_then_lower(operand.made))


def _then_lower(made: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    return simple_lower if made is None else lambda written: simple_lower(made(written))
