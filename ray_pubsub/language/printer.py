"""Writes a tree as text. Parsing the text gives the tree back."""

from __future__ import annotations

import re
from typing import Any

from ray_pubsub.language.functions.table import OPERATORS
from ray_pubsub.language.terms import COMPUTED, Attribute, Call, Condition, Listed, Term, is_computed
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
from ray_pubsub.language.words import write_name, write_operand
from ray_pubsub.model.values import Kind, Value

__all__ = ["computed_name", "show_value", "write", "write_subject", "write_term"]

QUANTIFIED = re.compile(r"(\S+) (any|all)")
"""How `5 < any(scores)` is called in the tree: "< any"."""

# How tightly a node binds; a child that binds less tightly than its parent needs parentheses.
OR, AND, NOT, LEAF = 0, 1, 2, 3


def write(tree: Tree) -> str:
    """Returns the tree as text, with no more parentheses than it needs."""
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
            return f"{write_subject(attribute)} {operator} {_constant(operand)}"
        case Between(attribute, low, high, negated):
            return f"{write_subject(attribute)}{_not(negated)} between {_constant(low)} and {_constant(high)}"
        case In(attribute, members, negated):
            return f"{write_subject(attribute)}{_not(negated)} in ({', '.join(map(_constant, members))})"
        case Like(attribute, pattern, escape, negated):
            ending = "" if escape is None else f" escape '{escape.replace(chr(39), chr(39) * 2)}'"
            return f"{write_subject(attribute)}{_not(negated)} like {_constant(pattern)}{ending}"
        case Regexp(attribute, pattern, negated):
            return f"{write_subject(attribute)}{_not(negated)} regexp {_constant(pattern)}"
        case IsNull(attribute, negated):
            return f"{write_subject(attribute)} is{_not(negated)} null"
        case BooleanAttribute(attribute):
            return write_subject(attribute)
        case Holds():
            return _write_holds(leaf)
        case Constant(truth):
            return "null" if truth is None else str(truth).lower()
        case _:
            raise AssertionError(f"not a leaf: {leaf}")


def write_subject(name: str) -> str:
    """Writes what a predicate tests: an attribute, or the term of a computed name."""
    return name.removeprefix(COMPUTED) if is_computed(name) else write_name(name)


def computed_name(term: Term) -> str:
    """Returns the name under which predicates test a term."""
    return term.name if isinstance(term, Attribute) else COMPUTED + write_term(term)


UNARY, PRIMARY = 7, 8


def write_term(term: Term, around: int = 0) -> str:
    """Returns the term as text; equal calls give equal texts."""
    match term:
        case Attribute(name):
            return write_subject(name)
        case Operand():
            text = _constant(term)
            return f"({text})" if text[0] == "-" and around > UNARY else text
        case Listed(members):
            return f"[{', '.join(map(_constant, members))}]"
        case Condition(tree):
            return f"({write(tree)})"
        case Call("negative", (argument,)):
            text = "-" + write_term(argument, PRIMARY)
            return f"({text})" if around > UNARY else text
        case Call("case", parts):
            whens = [
                f"when {write_term(condition)} then {write_term(value)}"
                for condition, value in zip(parts[:-1:2], parts[1::2], strict=True)
            ]
            return f"case {' '.join(whens)} else {write_term(parts[-1])} end"
        case Call(function, (left, right)) if QUANTIFIED.fullmatch(function):
            symbol, quantifier = function.split()
            text = f"{write_term(left, OPERATORS['='] + 1)} {symbol} {quantifier}({write_term(right)})"
            return f"({text})" if around > OPERATORS["="] else text
        case Call(function, (left, right)) if function in OPERATORS:
            binding = OPERATORS[function]
            # A comparison beside a comparison needs parentheses on both sides, everything else on the right.
            sides = write_term(left, binding + (binding == OPERATORS["="])), write_term(right, binding + 1)
            text = f"{sides[0]} {function} {sides[1]}"
            return f"({text})" if around > binding else text
        case Call(function, arguments):
            return f"{function}({', '.join(map(write_term, arguments))})"


def _write_holds(leaf: Holds) -> str:
    subjects = [write_subject(name) for name in leaf.attributes]
    constants = [_constant(constant) for constant in leaf.constants]
    quantified = QUANTIFIED.fullmatch(leaf.function)
    if quantified:
        return f"{constants[0]} {quantified[1]} {quantified[2]}({subjects[0]})"
    if leaf.condition is not None:
        return f"{leaf.function}({subjects[0]}, {write(leaf.condition)})"
    if leaf.function in ("list_has_any", "list_has_all"):
        return f"{leaf.function}({subjects[0]}, [{', '.join(constants)}])"
    return f"{leaf.function}({', '.join([*subjects, *constants])})"


SHOWN_ELEMENTS = 10


def show_value(value: Value) -> str:
    """Returns a value of an event for people; a long list is shortened."""
    if value.kind is not Kind.LIST:
        return write_operand(value.kind, value.plain)
    shown = [_show_element(element) for element in value.plain[:SHOWN_ELEMENTS]]
    return f"[{', '.join([*shown, *['…'] * (len(value.plain) > SHOWN_ELEMENTS)])}]"


def _show_element(element: Any) -> str:
    if element is None:
        return "null"
    if isinstance(element, Value):
        return show_value(element)
    return "{" + ", ".join(f"{write_name(name)}: {show_value(value)}" for name, value in element.items()) + "}"


def _constant(operand: Operand) -> str:
    return write_operand(operand.kind, operand.plain)


def _not(negated: bool) -> str:
    return " not" if negated else ""
