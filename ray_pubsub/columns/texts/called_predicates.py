"""Predicates that kernels cut out of texts and Python parses, as leaves and programs that take their places (kernels/texts/splice.py).

Those are functions that are true or false, such as `list_contains(tags, 'a')`, comparisons of two attributes, and whatever else the kernels
do not read. Each distinct one is parsed once; the rest of its text stays with the kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.kernels.texts import layout
from ray_pubsub.kernels.texts.layout import LEAF, OPERAND
from ray_pubsub.kernels.texts.splice import Parts
from ray_pubsub.language.lowering import flag_name, is_flag, lowered
from ray_pubsub.language.parser import GIVEN_UP, read
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.language.terms import Condition, Term, is_computed, term_of
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
    leaves,
)
from ray_pubsub.model.event_batch import split_number
from ray_pubsub.model.values import Kind
from ray_pubsub.settings import Limits

__all__ = ["NO_PART", "CalledPredicates", "leaves_of", "most_depth"]

OPERATORS = {
    "=": layout.EQUAL,
    "!=": layout.UNEQUAL,
    "<": layout.LESS,
    "<=": layout.LESS_OR_EQUAL,
    ">": layout.GREATER,
    ">=": layout.GREATER_OR_EQUAL,
}
CONSTANTS = {int(kind) for kind in (Kind.NUMBER, Kind.STRING, Kind.BOOLEAN, Kind.TIMESTAMP)}
NO_PART = -1


class _NotExpressible(Exception):  # noqa: N818 - never leaves this file
    """Raised for a predicate that leaves cannot express: its text is compiled alone."""


class _Shapes(ShapeCache):
    """Asks no grammar what is wrong with a predicate: the whole text is parsed again to say so."""

    _read = staticmethod(read)


class CalledPredicates:
    """The predicates of a portion of texts. Part number k belongs to one predicate as it is, or negated."""

    def __init__(self, vocabulary: Vocabulary, limits: Limits, *, ignore_case: bool, lowering: bool) -> None:
        """Without `lowering`, a function that is true or false becomes one leaf, on an attribute of its own: where only the attributes
        matter that it depends on."""
        self._vocabulary, self._lowering = vocabulary, lowering
        self._shapes = _Shapes(limits, ignore_case=ignore_case)
        self.terms: dict[str, Term] = {}
        """Of the computed attributes that the parts test."""
        self.names: list[str] = []
        """Of all attributes that the parts test; leaves have positions in this list."""
        self._number: dict[str, int] = {}
        self._leaves: list[tuple[Any, ...]] = []
        self._operands: list[tuple[Any, ...]] = []
        self._program: list[int] = []
        self._program_offsets, self._leaf_offsets = [0], [0]
        self.escapes = bytearray()
        """The characters of escapes, which operands point at."""

    def parse(self, text: str) -> Tree | None:
        """Returns the tree of a predicate; None if it is none, or unusual."""
        try:
            return self._shapes.parse(text).tree
        except GIVEN_UP:
            return None

    def add(self, tree: Tree, negated: bool) -> int:
        """Adds a part. Returns its number; NO_PART if leaves cannot express it."""
        marks = len(self._leaves), len(self._operands), len(self._program)
        try:
            self._put(self._resolved(tree, negated))
        except _NotExpressible:
            del self._leaves[marks[0] :], self._operands[marks[1] :], self._program[marks[2] :]
            return NO_PART
        self._program_offsets.append(len(self._program))
        self._leaf_offsets.append(len(self._leaves))
        return len(self._leaf_offsets) - 2

    def parts(self, rank: NDArray[np.int32], buffer: int) -> Parts:
        """Returns all parts in columns. `rank`: the numbers that the names have among all attributes; `buffer`: where the escapes will
        be."""
        found = np.array([*self._leaves, (0,) * 10], LEAF)
        found["attribute"][:-1] = rank[found["attribute"][:-1]]
        found["first"][-1] = len(self._operands)
        operands = np.array(self._operands, OPERAND)
        operands["start"] += buffer
        operands["stop"] += buffer
        return Parts(
            found, operands, np.array(self._program, np.int32), np.array(self._program_offsets), np.array(self._leaf_offsets)
        )  # fmt: skip

    def _resolved(self, tree: Tree, negated: bool) -> Tree:
        """Returns the tree with tests in the place of functions. They depend on whether the function is negated."""
        match tree:
            case Not(child):
                return Not(self._resolved(child, not negated))
            case And(children):
                return And(tuple(self._resolved(child, negated) for child in children))
            case Or(children):
                return Or(tuple(self._resolved(child, negated) for child in children))
            case Holds():
                if is_flag(tree) or not self._lowering:
                    name = flag_name(tree)
                    self.terms[name] = Condition(tree)
                    if not (negated and self._lowering):
                        return BooleanAttribute(name)
                found = lowered(tree, negated)
                return Not(found) if negated else found
            case _:
                return tree

    def _put(self, tree: Tree) -> None:
        match tree:
            case Not(child):
                self._put(child)
                self._program.append(layout.NOT)
            case And(children) | Or(children):
                for child in children:
                    self._put(child)
                self._program.append(-2 * len(children) - isinstance(tree, Or))
            case _:
                self._program.append(len(self._leaves) - self._leaf_offsets[-1])
                self._put_leaf(tree)

    def _put_leaf(self, leaf: Tree) -> None:
        operands: tuple[Operand, ...] = ()
        negated = prefix = False
        escape: str | None = None
        match leaf:
            case Constant(truth):
                operator, operands = layout.CONSTANT, (Operand(None if truth is None else Kind.BOOLEAN, truth),)
            case BooleanAttribute():
                operator = layout.BARE
            case IsNull(_, negated):
                operator = layout.ABSENCE
            case Comparison(_, symbol, operand):
                operator, operands = OPERATORS[symbol], (operand,)
            case Between(_, low, high, negated):
                operator, operands = layout.BETWEEN, (low, high)
            case In(_, operands, negated):
                operator = layout.MEMBER
            case Regexp(_, pattern, negated):
                operator, operands = layout.REGEXP, (pattern,)
            case Like(_, pattern, escape, negated):
                operator, operands = layout.LIKE, (pattern,)
                escape = None if escape is not None and escape not in pattern.plain else escape
                stem = pattern.plain.rstrip("%")
                prefix = escape is None and "%" not in stem and "_" not in stem
            case _:
                raise AssertionError(f"not a leaf: {leaf}")
        if escape is not None and not escape.isascii():
            raise _NotExpressible
        attribute = -1 if isinstance(leaf, Constant) else self._attribute(leaf.attribute)
        first = len(self._operands)
        self._operands += map(self._operand, operands)
        if escape is not None:
            start = len(self.escapes)
            self.escapes += escape.encode()
            self._operands.append((0, 0.0, start, len(self.escapes), layout.STRING))
        self._leaves.append((0, 0, first, attribute, operator, negated, escape is not None, prefix, False, False))

    def _operand(self, operand: Operand) -> tuple[Any, ...]:
        if operand.kind is None:
            return 0, 0.0, 0, 0, layout.UNKNOWN
        if operand.kind is Kind.STRING:
            return self._vocabulary.strings.number(operand.plain), 0.0, 0, 0, layout.STRING
        if int(operand.kind) not in CONSTANTS:
            raise _NotExpressible
        whole, rest = split_number(operand.plain)
        return int(whole), rest + 0.0, 0, 0, int(operand.kind)

    def _attribute(self, name: str) -> int:
        number = self._number.get(name)
        if number is None:
            number = self._number[name] = len(self.names)
            self.names.append(name)
            if is_computed(name) and name not in self.terms:
                self.terms[name] = term_of(name)
        return number


def leaves_of(tree: Tree) -> int:
    """Returns how many predicates a tree has."""
    return sum(1 for _ in leaves(tree))


def most_depth(text: str) -> int:
    """Returns how deep the tree of a predicate is at most: within parentheses there may be a function's condition, `or` and `and`."""
    return 1 + 3 * text.count("(") + text.lower().count("not")
