"""From tree to text. Parsing the text gives the tree back."""

from __future__ import annotations

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
from ray_pubsub.language.words import write_name, write_operand

__all__ = ["write"]

# How tightly a node binds; a child that binds less tightly than its parent needs parentheses.
OR, AND, NOT, LEAF = 0, 1, 2, 3


def write(tree: Tree) -> str:
    """The tree as text, with no more parentheses than it needs."""
    return _write(tree, OR)


def _write(tree: Tree, around: int) -> str:
    match tree:
        case Or():
            binding, text = OR, " or ".join(_write(child, AND) for child in tree.children)
        case And():
            binding, text = AND, " and ".join(_write(child, NOT) for child in tree.children)
        case Not():
            binding, text = NOT, "not " + _write(tree.child, NOT)
        case _:
            binding, text = LEAF, _write_leaf(tree)
    return f"({text})" if binding < around else text


def _write_leaf(leaf: Tree) -> str:
    match leaf:
        case Comparison(attribute, operator, operand):
            return f"{write_name(attribute)} {operator} {_constant(operand)}"
        case Between(attribute, low, high, negated):
            return f"{write_name(attribute)}{_not(negated)} between {_constant(low)} and {_constant(high)}"
        case In(attribute, members, negated):
            return f"{write_name(attribute)}{_not(negated)} in ({', '.join(map(_constant, members))})"
        case Like(attribute, pattern, escape, negated):
            ending = "" if escape is None else f" escape '{escape.replace(chr(39), chr(39) * 2)}'"
            return f"{write_name(attribute)}{_not(negated)} like {_constant(pattern)}{ending}"
        case Regexp(attribute, pattern, negated):
            return f"{write_name(attribute)}{_not(negated)} regexp {_constant(pattern)}"
        case IsNull(attribute, negated):
            return f"{write_name(attribute)} is{_not(negated)} null"
        case BooleanAttribute(attribute):
            return write_name(attribute)
        case Constant(truth):
            return "null" if truth is None else str(truth).lower()
        case _:
            raise AssertionError(f"not a leaf: {leaf}")


def _constant(operand: Operand) -> str:
    return write_operand(operand.kind, operand.plain)


def _not(negated: bool) -> str:
    return " not" if negated else ""
