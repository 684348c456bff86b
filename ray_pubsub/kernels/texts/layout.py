"""What the kernels of this folder hand on to each other, in columns.

A text becomes a program in postfix order: a number >= 0 is a leaf, NOT negates what is before it, -2n joins the last n by `and`, -(2n + 1)
joins them by `or`. Leaf i is a predicate on one attribute; its constants are the operands first[i]:first[i + 1].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "ABSENCE", "BARE", "BETWEEN", "BOOLEAN", "CALLED", "CONSTANT", "DATE", "DOUBLE", "EQUAL", "GREATER", "GREATER_OR_EQUAL", "LEAF", "LESS",
    "LESS_OR_EQUAL", "LIKE", "MEMBER", "MOMENT", "NOT", "NUMBER", "ODD_NUMBER", "OPERAND", "REGEXP", "STRING", "TIMESTAMP", "UNEQUAL",
    "UNKNOWN", "Parsed",
]  # fmt: skip

NOT = -1

# Predicates.
EQUAL, UNEQUAL, LESS, GREATER_OR_EQUAL, GREATER, LESS_OR_EQUAL = 0, 1, 2, 3, 4, 5
"""In pairs: each is the negation of its neighbour."""
BETWEEN, MEMBER, ABSENCE, LIKE, REGEXP, BARE, CONSTANT = 6, 7, 8, 9, 10, 11, 12
CALLED = 13
"""A predicate that Python parses: its name is its text. Other leaves take its place (splice.py)."""

# Kinds of constants: those of model/values.py, null, and texts that Python reads.
NUMBER, STRING, BOOLEAN, TIMESTAMP, UNKNOWN = 0, 1, 2, 3, 4
ODD_NUMBER, MOMENT, DATE, DOUBLE = 5, 6, 7, 8

LEAF = np.dtype(
    [
        ("name_start", "<i8"),  # of the attribute's name, in `buffer`
        ("name_stop", "<i8"),
        ("first", "<i8"),  # operand
        ("attribute", "<i4"),
        ("operator", "u1"),
        ("negated", "u1"),
        ("escaped", "u1"),  # a `like` whose second operand is its escape
        ("prefix", "u1"),  # a `like` that is an interval of strings
        ("is_term", "u1"),  # the name is the text of a value, which Python parses
        ("folded", "u1"),  # case is ignored: Python numbers the attribute and its strings in lower case
    ],
    align=True,
)
OPERAND = np.dtype(
    [
        ("whole", "<i8"),  # of a string its number
        ("rest", "<f8"),  # of an ODD_NUMBER its sign
        ("start", "<i8"),  # of a text, in `buffer`
        ("stop", "<i8"),
        ("kind", "u1"),
    ],
    align=True,
)


class Parsed(NamedTuple):
    """The predicates of many texts. Text t has the program[program_offsets[t]:program_offsets[t + 1]], empty if it was not read."""

    leaves: Any
    operands: Any
    program: Any
    program_offsets: Any
    leaf_offsets: Any
    buffer: Any
    """Names and strings, without their quotes."""
    depth: Any
    """Of each text, how many `and`, `or`, `not` and predicates are inside each other."""

    @classmethod
    def with_room(cls, texts: int, size: int) -> Parsed:
        """Room for whatever that many texts of that many bytes can hold: no predicate is shorter than four bytes with what joins it to
        the next, no constant shorter than two."""
        leaves = np.zeros(size // 4 + texts + 1, LEAF)
        operands = np.zeros(size // 2 + texts + 1, OPERAND)
        program = np.empty(size + 4 * texts, np.int32)
        return cls(
            leaves,
            operands,
            program,
            np.zeros(texts + 1, np.int64),
            np.zeros(texts + 1, np.int64),
            np.empty(size + 1, np.uint8),
            np.zeros(texts, np.int64),
        )
