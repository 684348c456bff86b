"""Gives the names and sets in test records other numbers (columns/decoding.py, move_table)."""

from __future__ import annotations

from typing import Any, NamedTuple

from ray_pubsub.kernels.compiled import compiled

__all__ = ["Numbers", "mark_used", "rename"]

OPAQUE, STRING = 1, 1
"""A flag of a record's form, and a kind."""


class Numbers(NamedTuple):
    """By the number of an attribute, of a string and of a set: whether it is used, or its new number."""

    attributes: Any
    strings: Any
    sets: Any


@compiled
def mark_used(tests, used):
    """Marks what the records name. A test of strings is an equality: both bounds are one number."""
    attributes, strings, sets = used
    for place in range(len(tests)):
        test = tests[place]
        attributes[test.attribute] = True
        if test.form & OPAQUE:
            sets[test.low_whole] = True
        elif test.kind == STRING:
            strings[test.low_whole] = True


@compiled
def rename(tests, new):
    attributes, strings, sets = new
    for place in range(len(tests)):
        test = tests[place]
        test.attribute = attributes[test.attribute]
        if test.form & OPAQUE:
            test.low_whole = sets[test.low_whole]
        elif test.kind == STRING:
            test.low_whole = test.high_whole = strings[test.low_whole]
