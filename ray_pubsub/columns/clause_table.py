"""Clauses as records, the form in which engines receive them. A clause is a list of tests; a test is one record or a run of records.

Most tests are one interval of numbers or timestamps, or one string: a single record of numbers. A set (`in`, `not in`, `!=`, a union of
intervals) is a run of such records, one per piece. Any other test (absence allowed, ranges of strings, patterns) is the number of a set
in opaque/opaque_sets.py. The table only grows: it is the live tail of an index, and the form in which clauses are passed to a segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.opaque.opaque_sets import OpaqueSets
from ray_pubsub.columns.test_records import RECORD, TEST, Form, Side, TestRecord, piece_record
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.kernels.columns.coding import attribute_uses
from ray_pubsub.kernels.columns.opaque_sets import gather_runs, take_records
from ray_pubsub.language.value_set import ABOVE_ALL, BELOW_ALL, Cut, Cuts, ValueSet
from ray_pubsub.model.values import Kind

__all__ = ["ClauseTable", "TestColumns", "records_of_test"]


def records_of_test(
    attribute: int, allowed: ValueSet, vocabulary: Vocabulary, table: ClauseTable, *, runs: bool = True
) -> list[TestRecord]:
    """Returns the records of a test. A ValueSet that records cannot express is added once to the table's opaque sets; without `runs`, so
    is every set that needs more than one record."""
    if not allowed.absent and not allowed.patterns:
        parts = [(kind, allowed.cuts(kind)) for kind in Kind if allowed.cuts(kind)]
        excluded = _excluded_points(parts) if runs else ()
        if excluded:
            kind = parts[0][0]
            flags = [Form.EXCLUDED] + [Form.EXCLUDED | Form.CONTINUED] * (len(excluded) - 1)
            cuts = [((0, value, Side.BEFORE), (0, value, Side.AFTER)) for value in excluded]
            return [
                piece_record(attribute, flag, kind, *cut, vocabulary) for flag, cut in zip(flags, cuts, strict=True)
            ]
        pieces = [(kind, *piece) for kind, cuts in parts for piece in zip(cuts[::2], cuts[1::2], strict=True)]
        expressible = all(kind != Kind.STRING or _is_point(enter, leave) for kind, enter, leave in pieces)
        if expressible and (runs or len(pieces) == 1):
            flags = [Form.INTERVAL] + [Form.CONTINUED] * (len(pieces) - 1)
            return [
                piece_record(attribute, flag, *piece, vocabulary) for flag, piece in zip(flags, pieces, strict=True)
            ]
    number = table.opaque.add(attribute, allowed, vocabulary)
    return [(attribute, Form.OPAQUE, 0, 0, 0, number, 0.0, 0, 0.0)]


def _excluded_points(parts: list[tuple[Kind, Cuts]]) -> list[Any]:
    """Returns the excluded points if the set is all of one kind except a few points."""
    if len(parts) != 1:
        return []
    kind, cuts = parts[0]
    if len(cuts) < 4 or cuts[0] != BELOW_ALL or cuts[-1] != ABOVE_ALL:
        return []
    gaps = list(zip(cuts[1:-1:2], cuts[2:-1:2], strict=True))
    # "Just after" a timestamp is stored as "just before" the next one.
    step = 1 if kind == Kind.TIMESTAMP else 0
    points = all(leave == (0, enter[1] + step if step else enter[1], 1 - step) for enter, leave in gaps)
    return [enter[1] for enter, _ in gaps] if points else []


def _is_point(enter: Cut, leave: Cut) -> bool:
    """Returns whether the piece is one point. Strings are numbered without regard to their order, so equality is the only comparison
    their numbers allow."""
    return len(enter) == 3 and len(leave) == 3 and enter[1] == leave[1]


class TestColumns:
    """Test records stored field by field, as bulk input provides them. A field with the same value in every record takes no memory."""

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
    """`count` clauses: clause i belongs to `owners[i]` and has the records `offsets[i]:offsets[i + 1]`."""

    count: int
    owners: NDArray[np.int64]
    offsets: NDArray[np.int64]
    tests: Any
    """Records of TEST, or TestColumns."""
    opaque: OpaqueSets
    """Sets that records cannot express."""
    _addresses: tuple[int, int, int] | None = None

    @property
    def addresses(self) -> tuple[int, int, int]:
        """Returns the addresses of offsets, tests and owners, which a kernel takes instead of arrays. They stay valid until `make_room`
        reallocates."""
        if self._addresses is None:
            self._addresses = (self.offsets.ctypes.data, self.tests.ctypes.data, self.owners.ctypes.data)
        return self._addresses

    @property
    def test_count(self) -> int:
        return int(self.offsets[self.count])

    @classmethod
    def empty(cls) -> ClauseTable:
        return cls(0, np.empty(64, np.int64), np.zeros(65, np.int64), np.empty(256, TEST), OpaqueSets.empty())

    def uses(self) -> NDArray[np.int64]:
        """Returns the number of tests on each attribute; a run counts once."""
        form = self.tests["form"][: self.test_count]
        found: NDArray[np.int64] = attribute_uses(self.tests["attribute"][: self.test_count], form, Form.CONTINUED)
        return found

    def of_alternatives(self) -> NDArray[np.bool_] | None:
        """Returns which clauses are alternatives, or None if there are none."""
        form = self.tests["form"][: self.test_count]
        if not (form & Form.ALTERNATIVE).any():
            return None
        filled = np.diff(self.offsets[: self.count + 1]) > 0
        found = np.zeros(self.count, dtype=bool)
        found[filled] = form[self.offsets[: self.count][filled]] & Form.ALTERNATIVE != 0
        return found

    def take(self, clauses: NDArray[np.int64]) -> ClauseTable:
        """Returns a table of these clauses, in this order. It shares the opaque sets."""
        places, offsets = gather_runs(self.offsets, clauses)
        tests = self.tests[places] if isinstance(self.tests, TestColumns) else take_records(self.tests, places)
        return ClauseTable(len(clauses), self.owners[clauses], offsets, tests, self.opaque)

    def append(self, owner: int, records: Sequence[TestRecord]) -> None:
        """Appends a clause. All fields are packed in one call: assigning them one by one took five times as long."""
        place = self.make_room(owner, len(records)) * TEST.itemsize
        for record in records:
            RECORD.pack_into(self.tests, place, *record)
            place += TEST.itemsize
        self.count += 1

    def extend(self, other: ClauseTable) -> None:
        """Appends all clauses of another table of the same vocabulary."""
        tests = other.tests[: other.test_count]
        opaque = np.flatnonzero(tests["form"] & Form.OPAQUE)
        if len(opaque):
            tests = tests.copy()
            used, which = np.unique(tests["low_whole"][opaque], return_inverse=True)
            tests["low_whole"][opaque] = self.opaque.extend(other.opaque.take(used))[which.reshape(-1)]
        self.make_room_for_many(other.count, len(tests))
        start, end = self.test_count, self.count + other.count
        self.tests[start : start + len(tests)] = tests
        self.owners[self.count : end] = other.owners[: other.count]
        self.offsets[self.count + 1 : end + 1] = other.offsets[1 : other.count + 1] + start
        self.count = end

    def make_room(self, owner: int, tests: int) -> int:
        """Makes room for one more clause and returns where its tests start. The clause becomes visible when `count` is raised."""
        start: int = self.offsets.item(self.count)
        if self.count == len(self.owners) or start + tests > len(self.tests):
            self.make_room_for_many(1, tests)
        self.owners[self.count] = owner
        self.offsets[self.count + 1] = start + tests
        return start

    def make_room_for_many(self, clauses: int, tests: int) -> None:
        """Makes room for this many more clauses and tests."""
        if self.count + clauses > len(self.owners):
            self._addresses = None
            self.owners = _grown(self.owners, self.count + clauses)
            self.offsets = _grown(self.offsets, len(self.owners) + 1)
        if self.test_count + tests > len(self.tests):
            self._addresses = None
            self.tests = _grown(self.tests, self.test_count + tests)


def _grown(array: NDArray[Any], needed: int) -> NDArray[Any]:
    larger = np.empty(max(needed, 2 * len(array)), array.dtype)
    larger[: len(array)] = array
    return larger
