"""Finds the rows of a batch that cannot be put into a mailbox.

A mailbox holds events as Python values. Arrow and Spark can represent a few values that Python cannot: years after 9999 or before 1,
strings that are not UTF-8, time zones that only Java knows. Such events are matched all the same.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["beyond_calendar", "in_known_zones", "in_utc", "moments_beyond_calendar", "without_rows"]

DAY = datetime.timedelta(days=1)
FIRST_DAY = (datetime.date.min - datetime.date(1970, 1, 1)) // DAY
LAST_DAY = (datetime.date.max - datetime.date(1970, 1, 1)) // DAY
A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def in_utc(batch: Any) -> Any:
    """Returns the batch with the same moments, all timestamps in UTC."""
    fields = [pa.field(field.name, _utc(field.type)) for field in batch.schema]
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def in_known_zones(batch: Any) -> Any:
    """Returns the batch unchanged, or converted to UTC if it has a time zone that Python does not know."""
    return batch if all(map(_zones_known, batch.schema.types)) else in_utc(batch)


def beyond_calendar(batch: Any) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yields each column that has moments outside Python's calendar, with a mask of the rows that have one."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if _has_moments(column.type):
            rows = _beyond(column)
            if rows.any():
                yield name, rows


def without_rows(table: Any, bad: Collection[int]) -> Any:
    """Returns the table with nulls in the rows of bad events. They are never delivered, but what is wrong with them (bytes that are not
    UTF-8) would make a coordinator refuse the whole table."""
    if not bad:
        return table
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):  # a dictionary keeps its values even if no row refers to them
            table = table.set_column(place, field.name, table.column(place).cast(field.type.value_type))
    excluded = np.zeros(table.num_rows, dtype=bool)
    excluded[list(bad)] = True
    return table.take(pa.array(np.arange(table.num_rows), mask=excluded))


def _utc(kind: Any) -> Any:
    if pa.types.is_timestamp(kind):
        return kind if kind.tz is None else pa.timestamp(kind.unit, "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _utc(field.type), field.nullable) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, pa.field(kind.item_field.name, _utc(kind.item_type), kind.item_field.nullable))
    return kind


def _zones_known(kind: Any) -> bool:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        try:
            pa.lib.string_to_tzinfo(kind.tz)
        except Exception:  # its type depends on the package that looks the zone up
            return False
    if pa.types.is_map(kind):
        return _zones_known(kind.item_type)
    return not pa.types.is_struct(kind) or all(_zones_known(field.type) for field in kind)


def _has_moments(kind: Any) -> bool:
    if pa.types.is_map(kind):
        return _has_moments(kind.item_type)
    if pa.types.is_struct(kind):
        return any(_has_moments(field.type) for field in kind)
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _beyond(array: Any) -> NDArray[np.bool_]:
    kind = array.type
    beyond = np.zeros(len(array), dtype=bool)
    if pa.types.is_map(kind):
        offsets = array.offsets.to_numpy()
        rows = np.repeat(np.arange(len(array)), np.diff(offsets))
        beyond[rows[_beyond(array.items[int(offsets[0]) : int(offsets[-1])])]] = True
    elif pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            beyond |= _beyond(pc.struct_field(array, number))
    elif pa.types.is_date32(kind):
        beyond = _outside(array.cast(pa.int32()), FIRST_DAY, LAST_DAY)
    elif pa.types.is_date64(kind):
        beyond = _outside(array.cast(pa.int64()), FIRST_DAY * A_DAY["ms"], (LAST_DAY + 1) * A_DAY["ms"] - 1)
    elif pa.types.is_timestamp(kind):
        beyond = moments_beyond_calendar(array)
    return beyond


def moments_beyond_calendar(moments: Any) -> NDArray[np.bool_]:
    """Returns a mask of the timestamps that are outside the years 1 to 9999."""
    day = A_DAY[moments.type.unit]
    if day == A_DAY["ns"]:
        return np.zeros(len(moments), dtype=bool)  # nanoseconds in 64 bits stay within these years
    return _outside(moments.cast(pa.int64()), FIRST_DAY * day, (LAST_DAY + 1) * day - 1)


def _outside(numbers: Any, first: int, last: int) -> NDArray[np.bool_]:
    inside = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    outside: NDArray[np.bool_] = ~pc.fill_null(inside, True).to_numpy(zero_copy_only=False)
    return outside
