"""The layout of a test record: an interval of one attribute and kind, or a reference to an opaque set."""

from __future__ import annotations

import struct

import numpy as np

from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.language.value_set import ABOVE_ALL, BELOW_ALL, Cut
from ray_pubsub.model.event_batch import split_number
from ray_pubsub.model.values import Kind

__all__ = ["ABSENCE", "PACKED_TEST", "RECORD", "TEST", "Form", "Side", "TestRecord", "as_alternative", "piece_record"]

TEST = np.dtype(
    [
        ("attribute", "<i4"),
        ("form", "u1"),
        ("kind", "u1"),
        ("low_side", "u1"),
        ("high_side", "u1"),
        ("low_whole", "<i8"),  # a string's number in the vocabulary; for OPAQUE the number of the set
        ("low_rest", "<f8"),
        ("high_whole", "<i8"),
        ("high_rest", "<f8"),
    ]
)
PACKED_TEST = "iBBBBqdqd"
RECORD = struct.Struct("<" + PACKED_TEST)
assert RECORD.size == TEST.itemsize

TestRecord = tuple[int, int, int, int, int, int, float, int, float]

ABSENCE = len(Kind)
"""In the place of a kind, in pieces of sets: the attribute has no value."""


class Form:
    """What a test record holds: INTERVAL or OPAQUE, plus flags.

    ALTERNATIVE: the tests of its clause are alternatives, of which one must hold. All clauses of its owner must hold, and they are
    adjacent (OpIndex section 6.1).
    CONTINUED: the record is a further piece of the test that the previous record began. Pieces may come in any order, and may overlap or
    be empty.
    EXCLUDED, on every record of a run: the pieces are points, and the test admits every other value of their kind.
    """

    INTERVAL = 0
    OPAQUE = 1
    ALTERNATIVE = 2
    CONTINUED = 4
    EXCLUDED = 8


class Side:
    """The position of a cut: just before its value, just after it, or nowhere (no bound)."""

    BEFORE = 0
    AFTER = 1
    NONE = 2


def piece_record(attribute: int, form: int, kind: Kind, enter: Cut, leave: Cut, vocabulary: Vocabulary) -> TestRecord:
    """Returns the record of the interval between two cuts."""
    return (
        attribute,
        form,
        int(kind),
        Side.NONE if enter == BELOW_ALL else enter[2],
        Side.NONE if leave == ABOVE_ALL else leave[2],
        *_number(kind, enter, vocabulary),
        *_number(kind, leave, vocabulary),
    )


def as_alternative(record: TestRecord) -> TestRecord:
    """Returns the record as part of a clause of alternatives."""
    return (record[0], record[1] | Form.ALTERNATIVE, *record[2:])


def _number(kind: Kind, cut: Cut, vocabulary: Vocabulary) -> tuple[int, float]:
    if len(cut) == 1:
        return 0, 0.0
    if kind == Kind.STRING:
        return vocabulary.strings.number(cut[1]), 0.0
    whole, rest = split_number(cut[1])
    return whole, rest + 0.0  # + 0.0 turns -0.0 into 0.0
