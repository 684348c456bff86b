"""Converts a column of an Arrow table to lanes.

A struct is flattened with dots, and so is a map (`attributes.color`): sparse events travel as maps. The values of a dictionary, of run-end
encoding and of a map are read once and then spread over their rows, because Arrow's own functions for that support only some types of
values.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ray_pubsub.errors import TableError
from ray_pubsub.model.arrow.arrow_texts import arrow_texts, is_string
from ray_pubsub.model.arrow.decimals import read_decimals
from ray_pubsub.model.attribute_tree import AttributeTree
from ray_pubsub.model.event_batch import (
    NO_IDS,
    OBJECT,
    EventBatch,
    Lane,
    ListColumn,
    kept_rows,
    merged_lanes,
    split_floats,
)
from ray_pubsub.model.values import GIVEN_TWICE, INT64_MAX, TOO_DEEP, Kind
from ray_pubsub.settings import EVENT_DEPTH, LIST_ELEMENTS

__all__ = ["ColumnReader", "as_int64"]

KNOWN_EXTENSIONS = {"arrow.bool8", "arrow.json"}
"""Extension types whose storage has the same meaning. The storage of others does not: a number of days, for example, is not a number."""

Rows = NDArray[np.int32] | None
"""The row of each element, if it is not its position."""


@dataclass(slots=True)
class ColumnReader:
    """Collects the lanes of columns."""

    attributes: AttributeTree | None = None
    """The attributes to read; None for all."""
    lanes: list[Lane] = field(default_factory=list)
    problems: dict[tuple[int, str], str] = field(default_factory=dict)
    """For a row and attribute, why the value cannot be used. The lanes may have a placeholder there."""
    depth: int = 0
    """How many lists, and structs in lists, are around what is read."""
    structs: int = 0
    """How many structs and maps are around it, if no list is."""

    def read(self, name: str, array: Any, rows: Rows = None) -> None:
        """Reads one column, or part of a nested one."""
        if self.attributes is not None and not self.attributes.leads_to(name):
            return
        kind = array.type
        if is_string(kind):
            if self._reads(name):
                self._read_strings(name, array, rows)
        elif isinstance(kind, pa.BaseExtensionType) and kind.extension_name in KNOWN_EXTENSIONS:
            storage = array.storage
            if kind.extension_name == "arrow.bool8":
                storage = _not_zero(storage)
            self.read(name, storage, rows)
        elif pa.types.is_run_end_encoded(kind):
            runs = as_int64(array.run_ends)
            index = np.searchsorted(runs, np.arange(array.offset, array.offset + len(array)), side="right")
            self._read_through(name, array.values, index, rows)
        elif pa.types.is_dictionary(kind):
            self._read_dictionary(name, array, rows)
        elif self._is_too_deep(kind):
            self._reject_where(name, rows, _numpy(array.is_valid()), TOO_DEEP)
        elif pa.types.is_struct(kind):
            self._read_struct(name, array, rows)
        elif pa.types.is_map(kind):
            self._read_map(name, array, rows)
        elif _is_list(kind):
            if self._reads(name):
                self._read_list(name, array, rows)
        elif not pa.types.is_null(kind) and self._reads(name):
            self._read_values(name, array, rows)

    def _is_too_deep(self, kind: Any) -> bool:
        is_object = pa.types.is_struct(kind) or pa.types.is_map(kind)
        if self.depth == 0:
            return is_object and self.structs >= EVENT_DEPTH
        return self.depth >= EVENT_DEPTH and (is_object or _is_list(kind))

    def join_columns(self, size: int) -> None:
        """Joins the lanes of attributes that several columns give, with a dot in the name here and nested there. A row to which two of
        them give a value is rejected."""
        count = Counter(lane.attribute for lane in self.lanes)
        clashing = [lane for lane in self.lanes if count[lane.attribute] > 1]
        if not clashing:
            return
        taken: dict[str, NDArray[np.bool_]] = {}
        kept: list[Lane] = []
        for lane in clashing:
            before = taken.setdefault(lane.attribute, np.zeros(size, dtype=bool))
            rows = np.arange(size) if lane.rows is None else lane.rows
            self.reject(rows[before[rows]], lane.attribute, GIVEN_TWICE)
            kept.append(kept_rows(lane, ~before))
            before[rows] = True
        joined = merged_lanes([], [lane for lane in kept if len(lane)], np.arange(size, dtype=np.int32), size)
        self.lanes = [*(lane for lane in self.lanes if count[lane.attribute] == 1), *joined]

    def reject(self, rows: NDArray[Any], attribute: str, reason: str) -> None:
        for row in rows.tolist():
            self.problems.setdefault((row, attribute), reason)

    def _reject_where(self, name: str, rows: Rows, bad: NDArray[np.bool_], reason: str) -> None:
        if bad.any():
            places = np.flatnonzero(bad)
            self.reject(places if rows is None else rows[places], name, reason)

    # ------------------------------------------------------------------------------------------------------------ values

    def _read_values(self, name: str, array: Any, rows: Rows) -> None:
        kind = array.type
        if not (pa.types.is_floating(kind) or _is_plain(kind)):
            reason = f"a column of type {kind} is not a number, string, boolean, timestamp or list; leave it out"
            self._reject_where(name, rows, _numpy(array.is_valid()), reason)
            return
        array, rows = _present(array, rows)
        if pa.types.is_floating(kind):
            self._read_floats(name, array, rows)
        elif pa.types.is_decimal(kind):
            self._read_decimals(name, array, rows)
        elif pa.types.is_integer(kind):
            if pa.types.is_uint64(kind):
                self._reject_where(name, rows, _numpy(array) > INT64_MAX, "an integer beyond 64 signed bits")
            self.lanes.append(Lane(name, Kind.NUMBER, rows, as_int64(array)))
        elif pa.types.is_boolean(kind):
            self.lanes.append(Lane(name, Kind.BOOLEAN, rows, as_int64(array.cast(pa.int8()))))
        else:
            self._read_moments(name, array, rows)

    def _read_strings(self, name: str, array: Any, rows: Rows) -> None:
        texts, valid, places = arrow_texts(name, array)
        if places is not None:
            rows = _chosen(rows, places)
        if valid is not None:
            self._reject_where(name, rows, ~valid, "a string that is not valid UTF-8")
        self.lanes.append(Lane(name, Kind.STRING, rows, np.arange(len(texts)), strings=texts))

    def _read_floats(self, name: str, array: Any, rows: Rows) -> None:
        values = _numpy(array).astype(np.float64, copy=False)
        number = values == values
        if not number.all():  # NaN is absent
            where = np.flatnonzero(number)
            values, rows = values[where], _chosen(rows, where)
        self.lanes.append(Lane(name, Kind.NUMBER, rows, *split_floats(values)))

    def _read_decimals(self, name: str, array: Any, rows: Rows) -> None:
        whole, rest, problems = read_decimals(array)
        for place, reason in problems.items():
            self.reject(np.array([place if rows is None else rows[place]]), name, reason)
        self.lanes.append(Lane(name, Kind.NUMBER, rows, whole, rest))

    def _read_moments(self, name: str, array: Any, rows: Rows) -> None:
        """Converts timestamps of every unit and dates to microseconds. Nanoseconds are truncated."""
        if pa.types.is_date(array.type):
            array = array.cast(pa.timestamp("ms"))
        counts = _numpy(array.cast(pa.int64()))
        unit = array.type.unit
        if unit == "ns":
            counts = counts // 1000
        elif unit != "us":
            factor = {"s": 1_000_000, "ms": 1_000}[unit]
            beyond = (counts > INT64_MAX // factor) | (counts < -(INT64_MAX // factor))
            self._reject_where(name, rows, beyond, "a timestamp beyond 64 bits of microseconds")
            counts = np.where(beyond, 0, counts) * factor
        self.lanes.append(Lane(name, Kind.TIMESTAMP, rows, counts))

    # ------------------------------------------------------------------------------------------------- columns of columns

    def _read_struct(self, name: str, array: Any, rows: Rows) -> None:
        """Reads the fields of structs. Where the struct is null they are absent, whatever they hold."""
        inner = ColumnReader(self.attributes, depth=self.depth + (self.depth > 0), structs=self.structs + 1)
        for number in range(array.type.num_fields):
            inner.read(f"{name}.{array.type.field(number).name}", array.field(number), rows)
        if array.null_count:
            valid = _numpy(array.is_valid())
            good = valid if rows is None else np.zeros(int(rows.max(initial=-1)) + 1, dtype=bool)
            if rows is not None:
                good[rows] = valid
            inner.lanes = [kept_rows(lane, good) for lane in inner.lanes]
            inner.problems = {place: reason for place, reason in inner.problems.items() if good[place[0]]}
        self.lanes += inner.lanes
        for problem, reason in inner.problems.items():
            self.problems.setdefault(problem, reason)

    def _read_list(self, name: str, array: Any, rows: Rows) -> None:
        """Reads lists of values, or of structs, whose fields become the attributes of elements that are objects."""
        # Null lists are skipped by flatten(). Taking the others, as _present does, is not possible for elements of every type.
        count, rows = _present(array.value_lengths(), rows)
        lengths = as_int64(count)
        self._reject_where(name, rows, lengths > LIST_ELEMENTS, f"a list of more than {LIST_ELEMENTS:,} elements")
        values = array.flatten()
        inner = ColumnReader(depth=self.depth + 1)
        inner.read_elements(values)
        inner.join_columns(len(values))
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        lists = ListColumn(offsets, EventBatch(len(values), inner.lanes, NO_IDS))
        if inner.problems:
            owner = np.searchsorted(offsets, np.array([row for row, _ in inner.problems]), side="right") - 1
            for place, reason in zip(owner.tolist(), inner.problems.values(), strict=True):
                self.reject(np.array([place if rows is None else rows[place]]), name, reason)
        self.lanes.append(Lane(name, Kind.LIST, rows, np.arange(len(lengths)), lists=lists))

    def read_elements(self, values: Any) -> None:
        """Reads the elements of lists, each as an event of its own."""
        if pa.types.is_map(values.type):
            self.read("", values)  # the keys become attributes after a dot
            self.lanes = [replace(lane, attribute=lane.attribute.removeprefix(".")) for lane in self.lanes]
        elif pa.types.is_struct(values.type) and self.depth < EVENT_DEPTH:
            self.depth += 1
            for number in range(values.type.num_fields):
                self.read(values.type.field(number).name, values.field(number))
        else:
            self.read("", values)
            return
        valid = _numpy(values.is_valid())
        self.lanes = [lane for lane in (kept_rows(lane, valid) for lane in self.lanes) if len(lane)]
        self.problems = {place: reason for place, reason in self.problems.items() if valid[place[0]]}
        objects = np.flatnonzero(valid).astype(np.int32)
        if len(objects):
            self.lanes.append(Lane(OBJECT, Kind.BOOLEAN, objects, np.ones(len(objects), np.int64)))

    def _read_dictionary(self, name: str, array: Any, rows: Rows) -> None:
        indices, rows = _present(array.indices, rows)
        index = as_int64(indices)
        if len(index) and not 0 <= index.min() <= index.max() < len(array.dictionary):
            raise TableError(name, "the column is damaged: its indices do not lie within its dictionary")
        self._read_through(name, array.dictionary, index, rows)

    def _read_through(self, name: str, values: Any, index: NDArray[np.int64], rows: Rows) -> None:
        """Reads a column whose element i is values[index[i]]."""
        inner = ColumnReader(self.attributes, depth=self.depth, structs=self.structs)
        inner.read(name, values)
        self.lanes += [_spread(lane, index, rows, len(values))[0] for lane in inner.lanes]
        for (place, attribute), reason in inner.problems.items():
            self._reject_where(attribute, rows, index == place, reason)

    def _read_map(self, name: str, array: Any, rows: Rows) -> None:
        """Reads maps. Each distinct key is an attribute whose lane has the rows that carry it."""
        offsets = _numpy(array.offsets)
        lengths = np.diff(offsets)
        element_rows = np.repeat(np.arange(len(array), dtype=np.int32) if rows is None else rows, lengths)
        present = np.repeat(_numpy(array.is_valid()), lengths)  # a null may have elements, which must be ignored
        first, last = int(offsets[0]), int(offsets[-1])
        number, keys = self._keys(name, array.keys[first:last], np.where(present, element_rows, -1))
        order = np.argsort(number, kind="stable")
        order = order[present[order]]
        sorted_rows, sorted_number = element_rows[order], number[order]
        same = (sorted_rows[1:] == sorted_rows[:-1]) & (sorted_number[1:] == sorted_number[:-1])
        for place in np.flatnonzero(same).tolist():
            attribute = f"{name}.{keys[sorted_number[place]]}"
            if self.attributes is None or self.attributes.leads_to(attribute):
                self.reject(sorted_rows[[place]], attribute, "given twice in one map")
        inner = ColumnReader(depth=self.depth + (self.depth > 0), structs=self.structs + 1)
        inner.read("", array.items[first:last])
        bounds = np.searchsorted(sorted_number, np.arange(len(keys) + 1))
        for lane in inner.lanes:
            spread, where = _spread(lane, order, sorted_rows, last - first)
            cuts = bounds if where is None else np.searchsorted(where, bounds)
            for place in np.flatnonzero(cuts[1:] > cuts[:-1]).tolist():
                attribute = f"{name}.{keys[place]}{lane.attribute}"
                if self._reads(attribute):
                    self.lanes.append(_slice(spread, attribute, int(cuts[place]), int(cuts[place + 1])))
        for (element, behind), reason in inner.problems.items():
            attribute = f"{name}.{keys[number[element]]}{behind}"
            if present[element] and self._reads(attribute):
                self.reject(element_rows[[element]], attribute, reason)

    def _keys(self, name: str, keys: Any, rows: NDArray[np.int32]) -> tuple[NDArray[np.int64], list[str]]:
        """Returns the number of each element's key, and the keys. `rows` are those of the elements, -1 for elements that do not matter."""
        if is_string(keys.type):
            keys = keys.cast(pa.large_string()).dictionary_encode()
        inner = ColumnReader()
        inner.read(name, keys)
        if len(keys) == 0:
            return np.zeros(0, np.int64), []
        lane = inner.lanes[0] if inner.lanes else None
        if lane is None or lane.strings is None or len(lane) < len(keys):
            raise TableError(name, f"a map's keys are attribute names, so strings, not {keys.type}")
        bad = rows[[row for row, _ in inner.problems]]
        self.reject(bad[bad >= 0], name, "a map has a key that is not valid UTF-8")
        distinct = {text: place for place, text in enumerate(dict.fromkeys(lane.strings))}
        number = np.array([distinct[text] for text in lane.strings], dtype=np.int64)
        return number[lane.whole], list(distinct)

    def _reads(self, attribute: str) -> bool:
        return self.attributes is None or attribute in self.attributes


def _spread(lane: Lane, index: NDArray[np.int64], rows: Rows, size: int) -> tuple[Lane, NDArray[np.int64] | None]:
    """Spreads a lane of `size` elements over those that `index` names. Also returns which of these have a value, unless all do."""
    cell, where = index, None
    if lane.rows is not None:
        place = np.full(size, -1, dtype=np.int64)
        place[lane.rows] = np.arange(len(lane))
        cell = place[index]
        where = np.flatnonzero(cell >= 0)
        cell, rows = cell[where], _chosen(rows, where)
    rest = None if lane.rest is None else lane.rest[cell]
    return replace(lane, rows=rows, whole=lane.whole[cell], rest=rest), where


def _slice(lane: Lane, attribute: str, start: int, stop: int) -> Lane:
    assert lane.rows is not None
    rest = None if lane.rest is None else lane.rest[start:stop]
    return replace(lane, attribute=attribute, rows=lane.rows[start:stop], whole=lane.whole[start:stop], rest=rest)


def _chosen(rows: Rows, where: NDArray[np.int64]) -> NDArray[np.int32]:
    return where.astype(np.int32) if rows is None else rows[where]


def _is_list(kind: Any) -> bool:
    types = pa.types
    view = types.is_list_view(kind) or types.is_large_list_view(kind)
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind) or view)


def _is_plain(kind: Any) -> bool:
    types = pa.types
    number = types.is_integer(kind) or types.is_decimal(kind)
    return bool(number or types.is_boolean(kind) or types.is_timestamp(kind) or types.is_date(kind))


def _present(array: Any, rows: Rows) -> tuple[Any, Rows]:
    """Returns the elements that are not null, and their rows."""
    if array.null_count == 0:
        return array, rows
    return array.drop_null(), _chosen(rows, np.flatnonzero(_numpy(array.is_valid())))


def _not_zero(array: Any) -> Any:
    import pyarrow.compute as pc  # importing it takes a tenth of a second, and few columns need it

    return pc.not_equal(array, pa.scalar(0, array.type))


def _numpy(array: Any) -> NDArray[Any]:
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def as_int64(array: Any) -> NDArray[np.int64]:
    return _numpy(array).astype(np.int64, copy=False)
