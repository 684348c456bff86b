"""Clauses as records, before they are given to an engine: a clause is a run of tests, a test is one record.

Almost every test is one interval of numbers or timestamps or one string, and is stored in numbers; the few that are not (several
intervals, several kinds, absence allowed, ranges of strings, patterns) point at their ValueSet. The table only grows: it is the live
tail of an index, and the form in which clauses are handed to a block.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.kernels.coding import attribute_uses
from ray_pubsub.language.value_set import ABOVE_ALL, BELOW_ALL, Cut, Cuts, ValueSet
from ray_pubsub.model.event_batch import split_number
from ray_pubsub.model.values import Kind

__all__ = ["TEST", "ClauseTable", "Form", "Side", "TestColumns", "TestRecord", "as_alternative", "test_record"]

TEST = np.dtype(
    [
        ("attribute", "<i4"),
        ("form", "u1"),
        ("kind", "u1"),
        ("low_side", "u1"),
        ("high_side", "u1"),
        ("low_whole", "<i8"),  # a string's number in the vocabulary; for OPAQUE the number of the ValueSet
        ("low_rest", "<f8"),
        ("high_whole", "<i8"),
        ("high_rest", "<f8"),
    ]
)
PACKED_TEST = "iBBBBqdqd"
assert struct.calcsize("<" + PACKED_TEST) == TEST.itemsize


class Form:
    """What a test record holds; to either, ALTERNATIVE may be added: the tests of its clause are alternatives, of which one must hold, and
    all the clauses of its owner, which follow each other, must hold (OpIndex section 6.1)."""

    INTERVAL = 0
    OPAQUE = 1
    ALTERNATIVE = 2


class Side:
    """Where a cut lies: just before its value, just after it, or nowhere (no bound)."""

    BEFORE = 0
    AFTER = 1
    NONE = 2


TestRecord = tuple[int, int, int, int, int, int, float, int, float]


def test_record(attribute: int, allowed: ValueSet, vocabulary: Vocabulary, table: ClauseTable) -> TestRecord:
    """The record of a test; a ValueSet that is not one interval is put into the table's list of those, once."""
    if not allowed.absent and not allowed.patterns:
        parts = [(kind, allowed.cuts(kind)) for kind in Kind if allowed.cuts(kind)]
        if len(parts) == 1 and len(parts[0][1]) == 2 and (parts[0][0] != Kind.STRING or _is_point(parts[0][1])):
            kind, (enter, leave) = parts[0]
            return (
                attribute,
                Form.INTERVAL,
                int(kind),
                Side.NONE if enter == BELOW_ALL else enter[2],
                Side.NONE if leave == ABOVE_ALL else leave[2],
                *_number(kind, enter, vocabulary),
                *_number(kind, leave, vocabulary),
            )
    number = table.opaque_numbers.setdefault((attribute, allowed), len(table.opaque))
    if number == len(table.opaque):
        table.opaque.append((attribute, allowed))
    return (attribute, Form.OPAQUE, 0, 0, 0, number, 0.0, 0, 0.0)


def as_alternative(record: TestRecord) -> TestRecord:
    """The record as one of a clause of alternatives."""
    return (record[0], record[1] | Form.ALTERNATIVE, *record[2:])


def _is_point(cuts: Cuts) -> bool:
    """Strings have numbers, not an order of numbers: only equality is a comparison of numbers."""
    enter, leave = cuts
    return len(enter) == 3 and len(leave) == 3 and enter[1] == leave[1]


def _number(kind: Kind, cut: Cut, vocabulary: Vocabulary) -> tuple[int, float]:
    if len(cut) == 1:
        return 0, 0.0
    if kind == Kind.STRING:
        return vocabulary.strings.number(cut[1]), 0.0
    return split_number(cut[1])


class TestColumns:
    """Test records field by field: what bulk input has. A field that is the same throughout takes no memory."""

    def __init__(self, fields: dict[str, NDArray[Any]]) -> None:
        self._fields = fields

    def __len__(self) -> int:
        return len(self._fields["attribute"])

    def __getitem__(self, key: Any) -> Any:
        return (
            self._fields[key]
            if isinstance(key, str)
            else TestColumns({name: part[key] for name, part in self._fields.items()})
        )

    def records(self) -> NDArray[Any]:
        tests = np.zeros(len(self), dtype=TEST)
        for name, part in self._fields.items():
            tests[name] = part
        return tests


@dataclass(slots=True)
class ClauseTable:
    """`count` clauses: clause i belongs to `owners[i]` and has the tests `offsets[i]:offsets[i + 1]`."""

    count: int
    owners: NDArray[np.int64]
    offsets: NDArray[np.int64]
    tests: Any
    """Records of TEST, or TestColumns."""
    opaque: list[tuple[int, ValueSet]]
    """The tests that are not records in themselves: attribute and set."""
    opaque_numbers: dict[tuple[int, ValueSet], int]
    _addresses: tuple[int, int, int] | None = None

    @property
    def addresses(self) -> tuple[int, int, int]:
        """Of offsets, tests and owners, in a table that only `make_room` changes: what a kernel takes instead of arrays."""
        if self._addresses is None:
            self._addresses = (self.offsets.ctypes.data, self.tests.ctypes.data, self.owners.ctypes.data)
        return self._addresses

    @property
    def test_count(self) -> int:
        return int(self.offsets[self.count])

    @classmethod
    def empty(cls) -> ClauseTable:
        return cls(0, np.empty(64, np.int64), np.zeros(65, np.int64), np.empty(256, TEST), [], {})

    def uses(self) -> NDArray[np.int64]:
        """How many tests each attribute has."""
        found: NDArray[np.int64] = attribute_uses(self.tests["attribute"][: self.test_count])
        return found

    def of_alternatives(self) -> NDArray[np.bool_] | None:
        """Which clauses are alternatives; None if none is."""
        form = self.tests["form"][: self.test_count]
        if form.max(initial=0) < Form.ALTERNATIVE:
            return None
        filled = np.diff(self.offsets[: self.count + 1]) > 0
        found = np.zeros(self.count, dtype=bool)
        found[filled] = form[self.offsets[: self.count][filled]] & Form.ALTERNATIVE != 0
        return found

    def take(self, clauses: NDArray[np.int64]) -> ClauseTable:
        """A table of these clauses, in this order; it shares the sets."""
        lengths = np.diff(self.offsets)[clauses]
        ends = np.cumsum(lengths)
        tests = np.arange(int(lengths.sum())) + np.repeat(self.offsets[clauses] - (ends - lengths), lengths)
        offsets = np.concatenate([[0], ends]).astype(np.int64)
        return ClauseTable(len(clauses), self.owners[clauses], offsets, self.tests[tests], self.opaque, {})

    def append(self, owner: int, records: Sequence[TestRecord]) -> None:
        """One more clause. Fields are packed in one call: assigning them one by one took five times as long."""
        place = self.make_room(owner, len(records)) * TEST.itemsize
        for record in records:
            RECORD.pack_into(self.tests, place, *record)
            place += TEST.itemsize
        self.count += 1

    def make_room(self, owner: int, tests: int) -> int:
        """Room for one more; where its tests start. It is there once `count` is raised."""
        start: int = self.offsets.item(self.count)
        if self.count == len(self.owners) or start + tests > len(self.tests):
            self.make_room_for_many(1, tests)
        self.owners[self.count] = owner
        self.offsets[self.count + 1] = start + tests
        return start

    def make_room_for_many(self, clauses: int, tests: int) -> None:
        """Room for so many more, in all."""
        if self.count + clauses > len(self.owners):
            self._addresses = None
            self.owners = _grown(self.owners, self.count + clauses)
            self.offsets = _grown(self.offsets, len(self.owners) + 1)
        if self.test_count + tests > len(self.tests):
            self._addresses = None
            self.tests = _grown(self.tests, self.test_count + tests)


RECORD = struct.Struct("<" + PACKED_TEST)


def _grown(array: NDArray[Any], needed: int) -> NDArray[Any]:
    larger = np.empty(max(needed, 2 * len(array)), array.dtype)
    larger[: len(array)] = array
    return larger
