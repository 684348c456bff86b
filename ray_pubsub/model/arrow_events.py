"""Events from Arrow tables and pandas, column by column: no Python object per cell.

A struct column is flattened with dots, and so is a map column (`attributes.color`): a map is how sparse events travel.
A value that cannot be used makes its own row bad; the other rows are matched.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ray_pubsub.errors import EventError, TableError
from ray_pubsub.model.decimals import read_decimals
from ray_pubsub.model.event_batch import EventBatch, Lane, split_floats
from ray_pubsub.model.values import INT64_MAX, Kind

__all__ = ["from_arrow"]

KNOWN_EXTENSIONS = {"arrow.bool8", "arrow.json"}
"""Extension types whose storage means what they mean; a number of days, say, would not be a number."""


def from_arrow(table: Any, event_id: str | None = None) -> EventBatch:
    """The batch of a pyarrow Table or RecordBatch; `event_id` names the column that holds the ids."""
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    repeated = [name for name, count in Counter(table.column_names).items() if count > 1]
    if repeated:
        raise TableError(repeated[0], "there are two columns of this name")
    ids: NDArray[Any] = np.arange(table.num_rows, dtype=np.int64) if event_id is None else _event_ids(table, event_id)
    reader = _Reader()
    for name, column in zip(table.column_names, table.columns, strict=True):
        _read_array(reader, name, column.chunk(0) if column.num_chunks == 1 else _combined(column), None)
    clash = next((name for name, count in Counter(lane.attribute for lane in reader.lanes).items() if count > 1), None)
    if clash is not None:
        raise TableError(clash, "two columns give this attribute, one with a dot in its name and one nested")
    positions = None
    lanes = reader.lanes
    if reader.problems:
        good = np.ones(table.num_rows, dtype=bool)
        good[list(reader.problems)] = False
        positions = np.flatnonzero(good)
        number = np.cumsum(good, dtype=np.int32) - np.int32(1)
        lanes = [_renumbered(_kept(lane, good), number) for lane in lanes]
    return EventBatch(
        size=table.num_rows if positions is None else len(positions),
        lanes=lanes,
        input_ids=ids,
        positions=positions,
        errors=[EventError(*problem, position) for position, problem in sorted(reader.problems.items())],
    )


def _kept(lane: Lane, good: NDArray[np.bool_]) -> Lane:
    """The cells of a lane whose rows are good."""
    keep = good if lane.rows is None else good[lane.rows]
    rows = np.flatnonzero(good).astype(np.int32) if lane.rows is None else lane.rows[keep]
    return replace(lane, rows=rows, whole=lane.whole[keep], rest=None if lane.rest is None else lane.rest[keep])


def _renumbered(lane: Lane, number: NDArray[np.int32]) -> Lane:
    assert lane.rows is not None
    return replace(lane, rows=number[lane.rows])


@dataclass(slots=True)
class _Reader:
    lanes: list[Lane] = field(default_factory=list)
    problems: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Bad row → (attribute, reason); the first problem of a row counts."""

    def reject(self, rows: NDArray[Any], attribute: str, reason: str) -> None:
        for row in rows.tolist():
            self.problems.setdefault(row, (attribute, reason))


def _combined(column: Any) -> Any:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _read_array(reader: _Reader, name: str, array: Any, rows: NDArray[np.int32] | None) -> None:
    """One column (or part of a nested one) → lanes. `rows`: the row of each element, if not its position."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name in KNOWN_EXTENSIONS:
        storage = array.storage
        if kind.extension_name == "arrow.bool8":
            storage = pc.not_equal(storage, pa.scalar(0, storage.type))
        return _read_array(reader, name, storage, rows)
    if pa.types.is_run_end_encoded(kind):
        return _read_array(reader, name, pc.run_end_decode(array), rows)
    if pa.types.is_dictionary(kind):
        if _is_string(kind.value_type):
            return _read_strings(reader, name, array, rows)
        return _read_array(reader, name, array.dictionary_decode(), rows)
    if pa.types.is_null(kind):
        return None
    if pa.types.is_struct(kind):
        return _read_struct(reader, name, array, rows)
    if pa.types.is_map(kind):
        return _read_map(reader, name, array, rows)
    if _is_string(kind):
        return _read_strings(reader, name, array, rows)
    if pa.types.is_floating(kind):
        return _read_floats(reader, name, array, rows)
    if not _is_plain(kind):
        reason = f"a column of type {kind} is not a number, string, boolean or timestamp; leave it out"
        return _reject_where(reader, name, rows, _numpy(array.is_valid()), reason)
    array, rows = _present(array, rows)
    if pa.types.is_decimal(kind):
        return _read_decimals(reader, name, array, rows)
    if pa.types.is_integer(kind):
        if pa.types.is_uint64(kind):
            _reject_where(reader, name, rows, _numpy(array) > INT64_MAX, "an integer beyond 64 signed bits")
        return reader.lanes.append(Lane(name, Kind.NUMBER, rows, _int64(array)))
    if pa.types.is_boolean(kind):
        return reader.lanes.append(Lane(name, Kind.BOOLEAN, rows, _int64(pc.cast(array, pa.int8()))))
    return _read_moments(reader, name, array, rows)


def _is_plain(kind: Any) -> bool:
    types = pa.types
    number = types.is_integer(kind) or types.is_decimal(kind)
    return bool(number or types.is_boolean(kind) or types.is_timestamp(kind) or types.is_date(kind))


def _present(array: Any, rows: NDArray[np.int32] | None) -> tuple[Any, NDArray[np.int32] | None]:
    """The elements that are not null, and their rows."""
    if array.null_count == 0:
        return array, rows
    valid = _numpy(array.is_valid())
    where = np.flatnonzero(valid).astype(np.int32)
    return array.drop_null(), where if rows is None else rows[where]


def _reject_where(
    reader: _Reader, name: str, rows: NDArray[np.int32] | None, bad: NDArray[np.bool_], reason: str
) -> None:
    if bad.any():
        places = np.flatnonzero(bad)
        reader.reject(places if rows is None else rows[places], name, reason)


def _read_floats(reader: _Reader, name: str, array: Any, rows: NDArray[np.int32] | None) -> None:
    array, rows = _present(array, rows)
    values = _numpy(array).astype(np.float64, copy=False)
    number = values == values
    if not number.all():  # NaN is absent
        where = np.flatnonzero(number).astype(np.int32)
        values, rows = values[where], where if rows is None else rows[where]
    reader.lanes.append(Lane(name, Kind.NUMBER, rows, *split_floats(values)))


def _read_decimals(reader: _Reader, name: str, array: Any, rows: NDArray[np.int32] | None) -> None:
    whole, rest, problems = read_decimals(array)
    for place, reason in problems.items():
        reader.reject(np.array([place if rows is None else rows[place]]), name, reason)
    reader.lanes.append(Lane(name, Kind.NUMBER, rows, whole, rest))


def _read_moments(reader: _Reader, name: str, array: Any, rows: NDArray[np.int32] | None) -> None:
    """Timestamps of every unit and dates → microseconds; nanoseconds are cut down to the microsecond."""
    if pa.types.is_date(array.type):
        array = pc.cast(array, pa.timestamp("ms"))
    counts = _numpy(pc.cast(array, pa.int64()))
    unit = array.type.unit
    if unit == "ns":
        counts = counts // 1000
    elif unit != "us":
        factor = {"s": 1_000_000, "ms": 1_000}[unit]
        beyond = (counts > INT64_MAX // factor) | (counts < -(INT64_MAX // factor))
        _reject_where(reader, name, rows, beyond, "a timestamp beyond 64 bits of microseconds")
        counts = np.where(beyond, 0, counts) * factor
    reader.lanes.append(Lane(name, Kind.TIMESTAMP, rows, counts))


def _read_strings(reader: _Reader, name: str, array: Any, rows: NDArray[np.int32] | None) -> None:
    if pa.types.is_dictionary(array.type):
        # A dictionary may hold nulls and repeat itself: decoding finds the rows that have a value.
        array = array.dictionary_decode()
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        array = pc.cast(array, pa.large_string())
    array, rows = _present(array, rows)
    encoded = array.dictionary_encode()
    whole = _numpy(encoded.indices).astype(np.int64)
    valid = _valid_utf8(encoded.dictionary)
    if valid.all():
        strings = encoded.dictionary.to_pylist()
    else:
        _reject_where(reader, name, rows, ~valid[whole], "a string that is not valid UTF-8")
        strings = [encoded.dictionary[place].as_py() if good else "" for place, good in enumerate(valid.tolist())]
    reader.lanes.append(Lane(name, Kind.STRING, rows, whole, strings=strings))


def _valid_utf8(strings: Any) -> NDArray[np.bool_]:
    """Arrow does not check its strings; one pass over all of them tells whether they need a look one by one."""
    try:
        strings.validate(full=True)
        return np.ones(len(strings), dtype=bool)
    except pa.ArrowInvalid:
        return np.array([_decodes(text.as_buffer().to_pybytes()) for text in strings], dtype=bool)


def _decodes(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _read_struct(reader: _Reader, name: str, array: Any, rows: NDArray[np.int32] | None) -> None:
    """The fields; where the struct is null, they are absent whatever they hold."""
    inner = _Reader()
    for number in range(array.type.num_fields):
        _read_array(inner, f"{name}.{array.type.field(number).name}", array.field(number), rows)
    if array.null_count:
        valid = _numpy(array.is_valid())
        good = valid if rows is None else np.zeros(int(rows.max(initial=-1)) + 1, dtype=bool)
        if rows is not None:
            good[rows] = valid
        inner.lanes = [_kept(lane, good) for lane in inner.lanes]
        inner.problems = {row: problem for row, problem in inner.problems.items() if good[row]}
    reader.lanes += inner.lanes
    for row, problem in inner.problems.items():
        reader.problems.setdefault(row, problem)


def _read_map(reader: _Reader, name: str, array: Any, rows: NDArray[np.int32] | None) -> None:
    """Each distinct key is an attribute whose lane has the rows that carry it."""
    array, rows = _present(array, rows)
    offsets = _numpy(array.offsets)
    element_rows = np.repeat(np.arange(len(array), dtype=np.int32) if rows is None else rows, np.diff(offsets))
    first, last = int(offsets[0]), int(offsets[-1])
    keys, items = array.keys[first:last], array.items[first:last]
    if pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_decode()
    if not _is_string(keys.type):
        raise TableError(name, f"a map's keys are attribute names, so strings, not {keys.type}")
    encoded = pc.cast(keys, pa.large_string()).dictionary_encode()
    numbers = _numpy(encoded.indices)
    valid = _valid_utf8(encoded.dictionary)
    _reject_where(reader, name, element_rows, ~valid[numbers], "a map has a key that is not valid UTF-8")
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(len(encoded.dictionary) + 1))
    items = items.take(pa.array(order))
    element_rows = element_rows[order]
    for number in np.flatnonzero(valid).tolist():
        key = encoded.dictionary[number].as_py()
        start, end = int(bounds[number]), int(bounds[number + 1])
        lane_rows = element_rows[start:end]
        repeated = lane_rows[1:][lane_rows[1:] == lane_rows[:-1]]
        if len(repeated):
            reader.reject(repeated, f"{name}.{key}", "given twice in one map")
        _read_array(reader, f"{name}.{key}", items.slice(start, end - start), lane_rows)


def _event_ids(table: Any, event_id: str) -> NDArray[Any]:
    if event_id not in table.column_names:
        raise TableError(event_id, "there is no such column to take the event ids from")
    column = table.column(event_id)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)  # a dictionary may hide nulls
    kind = column.type
    if column.null_count or not (_is_string(kind) or pa.types.is_integer(kind)):
        raise TableError(
            event_id,
            f"event ids are strings or integers, none missing; this is {column.type} with {column.null_count} nulls",
        )
    if pa.types.is_integer(kind):
        try:
            return _int64(_combined(pc.cast(column, pa.int64())))
        except pa.ArrowInvalid:
            raise TableError(event_id, "an event id is beyond 64 signed bits") from None
    ids: NDArray[Any] = np.array(column.to_pylist(), dtype=object)
    return ids


def _is_string(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _numpy(array: Any) -> NDArray[Any]:
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def _int64(array: Any) -> NDArray[np.int64]:
    return _numpy(array).astype(np.int64, copy=False)
