"""The expression tree, which the parser builds, the scan engine evaluates and the printer writes.

Leaves are predicates on one attribute, or on a term over attributes, which has a name of its own (terms.py); `And`, `Or` and `Not` join
them. Two trees are equal if their texts mean the same; `conjunction` and `disjunction` flatten, so that parsing a printed tree gives the
same tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from ray_pubsub.model.values import Kind

__all__ = [
    "And",
    "Between",
    "BooleanAttribute",
    "Comparison",
    "Constant",
    "Holds",
    "In",
    "IsNull",
    "Like",
    "Not",
    "Operand",
    "Operator",
    "Or",
    "Regexp",
    "Tree",
    "conjunction",
    "disjunction",
    "leaves",
    "operands",
]

Operator = Literal["=", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Operand:
    """A constant. `kind` None is SQL's null. `place` is the constant's rank in the text (see shapes.py)."""

    kind: Kind | None
    plain: Any
    place: int = field(default=-1, compare=False, repr=False)
    made: Callable[[Any], Any] | None = field(default=None, compare=False, repr=False)
    """Converts the written constant to the one that is used, if they differ: the pattern of `starts_with(x, 'a')` is 'a%'."""


@dataclass(frozen=True, slots=True)
class Comparison:
    attribute: str
    operator: Operator
    operand: Operand


@dataclass(frozen=True, slots=True)
class Between:
    attribute: str
    low: Operand
    high: Operand
    negated: bool = False


@dataclass(frozen=True, slots=True)
class In:
    attribute: str
    members: tuple[Operand, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like:
    attribute: str
    pattern: Operand
    escape: str | None = None
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Regexp:
    attribute: str
    pattern: Operand
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    attribute: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class BooleanAttribute:
    """A bare attribute used as a condition: `in_stock and price < 5`. The same as `in_stock = true`."""

    attribute: str


@dataclass(frozen=True, slots=True)
class Constant:
    """`true`, `false`, or (None) unknown."""

    truth: bool | None


@dataclass(frozen=True, slots=True)
class Holds:
    """A function of attributes and constants that is true or false: `list_contains(tags, 'a')`. An index evaluates all such functions on
    the same attributes at once (lowering.py converts each to tests). `exists` has a condition on elements."""

    function: str
    attributes: tuple[str, ...]
    constants: tuple[Operand, ...] = ()
    condition: Tree | None = None


@dataclass(frozen=True, slots=True)
class Not:
    child: Tree


@dataclass(frozen=True, slots=True)
class And:
    children: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Or:
    children: tuple[Tree, ...]


Leaf = Comparison | Between | In | Like | Regexp | IsNull | BooleanAttribute | Holds | Constant
Tree = Leaf | Not | And | Or


def conjunction(children: list[Tree]) -> Tree:
    """`and` over the children, flattened; no children is true."""
    flat = [grandchild for child in children for grandchild in (child.children if isinstance(child, And) else (child,))]
    if not flat:
        return Constant(True)
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def disjunction(children: list[Tree]) -> Tree:
    """`or` over the children, flattened; no children is false."""
    flat = [grandchild for child in children for grandchild in (child.children if isinstance(child, Or) else (child,))]
    if not flat:
        return Constant(False)
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def leaves(tree: Tree) -> Iterator[Leaf]:
    """Yields the predicates, in the order of the text."""
    stack: list[Tree] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, And | Or):
            stack.extend(reversed(node.children))
        elif isinstance(node, Not):
            stack.append(node.child)
        else:
            yield node


def operands(leaf: Leaf) -> tuple[Operand, ...]:
    """Returns the constants of a predicate, in the order of the text."""
    match leaf:
        case Comparison():
            return (leaf.operand,)
        case Between():
            return (leaf.low, leaf.high)
        case In():
            return leaf.members
        case Like() | Regexp():
            return (leaf.pattern,)
        case Holds():
            inner = () if leaf.condition is None else leaves(leaf.condition)
            return (*leaf.constants, *(operand for each in inner for operand in operands(each)))
        case _:
            return ()
