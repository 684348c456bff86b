"""Compiles a conjunction of intervals, the commonest shape: its clause is written in one call directly from the constants, while the
recipes of clause_compiler.py go record by record."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from operator import gt, itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.test_records import PACKED_TEST, TEST, Form
from ray_pubsub.kernels.columns.code_space import ClauseRows
from ray_pubsub.kernels.columns.interval_rows import IntervalShape, put_intervals, put_many_intervals
from ray_pubsub.language.shapes import Expression
from ray_pubsub.model.event_batch import split_number

__all__ = ["Interval", "IntervalRecipe"]

Interval = tuple[int, int, int, int, int, int]
"""Attribute, kind, low side, high side, and the positions of the low and the high bound's constants (a missing bound repeats the
other's)."""
FIELDS = len(PACKED_TEST)
LOW_WHOLE, LOW_REST, HIGH_WHOLE, HIGH_REST = 5, 6, 7, 8


class IntervalRecipe:
    """What is the same for all expressions of a shape, laid out so that only the bounds have to be filled in."""

    def __init__(self, intervals: Sequence[Interval]) -> None:
        self.tests = len(intervals)
        self._record = struct.Struct("<" + PACKED_TEST * self.tests)
        self._template: list[Any] = []
        for interval in intervals:
            self._template += [*_start_of_record(interval), 0, 0.0, 0, 0.0]
        self._records = np.zeros(self.tests, dtype=TEST)
        for place, interval in enumerate(intervals):
            self._records[place] = (*_start_of_record(interval), 0, 0.0, 0, 0.0)
        self._low_places = np.array([interval[4] for interval in intervals], dtype=np.int64)
        self._high_places = np.array([interval[5] for interval in intervals], dtype=np.int64)
        self._lows = _getter([interval[4] for interval in intervals])
        self._highs = _getter([interval[5] for interval in intervals])

    def append(self, table: ClauseTable, owner: int, expression: Expression) -> None:
        """Appends the expression's clause to the table, unless it can never hold."""
        values = expression.values
        if isinstance(values, np.ndarray):
            start = table.make_room(owner, self.tests)
            if put_intervals(values, self._low_places, self._high_places, self._records, table.tests, start):
                table.count += 1
            return
        fields = self._fields(values)
        if fields is not None:
            place = table.make_room(owner, self.tests) * TEST.itemsize
            self._record.pack_into(table.tests, place, *fields)
            table.count += 1

    def append_many(self, table: ClauseTable, owners: NDArray[np.int64], values: Sequence[NDArray[np.int64]]) -> None:
        """Appends the clauses of many expressions whose constants are all integers."""
        table.make_room_for_many(len(owners), len(owners) * self.tests)
        rows = np.concatenate(values).reshape(len(owners), -1)
        shape = IntervalShape(self._low_places, self._high_places, self._records)
        filled = ClauseRows(table.owners, table.offsets, table.tests)
        table.count = put_many_intervals(rows, shape, owners, table.count, filled)

    def _fields(self, constants: tuple[Any, ...]) -> list[Any] | None:
        """Returns the fields of the records; None if an interval is empty, because the clause can then never hold."""
        lows, highs = self._lows(constants), self._highs(constants)
        if any(map(gt, lows, highs)):
            return None
        fields = self._template.copy()
        fields[LOW_WHOLE::FIELDS], fields[LOW_REST::FIELDS] = zip(*map(split_number, lows), strict=True)
        fields[HIGH_WHOLE::FIELDS], fields[HIGH_REST::FIELDS] = zip(*map(split_number, highs), strict=True)
        return fields


def _start_of_record(interval: Interval) -> tuple[int, int, int, int, int]:
    attribute, kind, low_side, high_side, _, _ = interval
    return attribute, Form.INTERVAL, kind, low_side, high_side


def _getter(places: list[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    if len(places) > 1:
        return itemgetter(*places)
    place = places[0]
    return lambda constants: (constants[place],)
