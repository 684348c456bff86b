"""Rewrites expressions to ignore case: both sides of every comparison of texts are in lower case, as with `ilike`.

`name = 'Ann'` becomes `lower(name) = 'ann'`. Comparisons of two attributes, regular expressions (which have `(?i)`) and functions that
search lists for texts are not changed; conditions within `exists`, `case` and `if`, or used as values, are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ray_pubsub.language.functions.folding import simple_lower
from ray_pubsub.language.printer import computed_name
from ray_pubsub.language.terms import Call, Condition, Term, is_computed, parts_of, term_of
from ray_pubsub.language.tree import (
    And,
    Between,
    Comparison,
    Constant,
    Holds,
    In,
    Leaf,
    Like,
    Not,
    Operand,
    Or,
    Tree,
)
from ray_pubsub.model.values import Kind

__all__ = ["fold_case", "fold_term"]


def fold_case(tree: Tree) -> Tree:
    """Returns the same expression, ignoring case."""
    match tree:
        case And(children):
            return And(tuple(map(fold_case, children)))
        case Or(children):
            return Or(tuple(map(fold_case, children)))
        case Not(child):
            return Not(fold_case(child))
        case _:
            return _folded_leaf(_with_folded_subject(tree))


def fold_term(term: Term) -> Term:
    """Returns the same term; the conditions in it ignore case."""
    match term:
        case Condition(tree):
            return Condition(fold_case(tree))
        case Call(function, arguments):
            return Call(function, tuple(map(fold_term, arguments)))
        case _:
            return term


def _with_folded_subject(leaf: Leaf) -> Leaf:
    """Folds the conditions within what a predicate tests."""
    match leaf:
        case Holds(_, attributes):
            return replace(leaf, attributes=tuple(map(_folded_name, attributes)))
        case Constant():
            return leaf
        case _:
            return replace(leaf, attribute=_folded_name(leaf.attribute))


def _folded_name(name: str) -> str:
    if not is_computed(name):
        return name
    term = term_of(name)
    has_condition = any(isinstance(part, Condition) for part in parts_of(term))
    return computed_name(fold_term(term)) if has_condition else name


def _folded_leaf(leaf: Leaf) -> Leaf:
    match leaf:
        case Comparison(attribute, _, operand) if _is_text(operand):
            return replace(leaf, attribute=_lower(attribute), operand=_folded(operand))
        case Between(attribute, low, high) if _is_text(low) or _is_text(high):
            return replace(leaf, attribute=_lower(attribute), low=_folded(low), high=_folded(high))
        case In(attribute, members) if any(map(_is_text, members)):
            return replace(leaf, attribute=_lower(attribute), members=tuple(map(_folded, members)))
        case Like(attribute, pattern, escape):
            character = escape and simple_lower(escape)
            return replace(leaf, attribute=_lower(attribute), pattern=_folded(pattern), escape=character)
        case Holds() if leaf.condition is not None:
            return replace(leaf, condition=fold_case(leaf.condition))
        case _:
            return leaf


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
