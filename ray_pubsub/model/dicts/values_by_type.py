"""Converts Python values of one type to lanes, all at once. A column of mixed types is cut into one list for each reader.

A reader returns what read_value returns for each of the values, or raises one of `NOT_ALL`: then the values are read one by one, which
finds those at fault. So a reader may refuse what it is not certain of.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.model.event_batch import split_floats
from ray_pubsub.model.text_column import TextColumn
from ray_pubsub.model.values import FINER_THAN_MICROSECONDS, Kind

__all__ = ["NOT_ALL", "Converted", "Reader", "moments_of", "reader_of", "small_numbers"]

NOT_ALL = (OverflowError, TypeError, ValueError)  # a UnicodeEncodeError is a ValueError
EXACT = 2.0**53
"""Every integer below it is a float too."""
SMALLEST_NORMAL = 1e-300
SURE_DIGITS = 15
"""Two decimals with at most this number of digits are never the same float."""
DAY = 86_400_000_000
FIRST_DAY = datetime.date(1970, 1, 1).toordinal()


class Converted(NamedTuple):
    """The fields of a lane (event_batch.Lane)."""

    kind: Kind
    places: NDArray[np.intp] | None
    """Which of the values are present; None if all are."""
    whole: NDArray[np.int64]
    rest: NDArray[np.float64] | None = None
    strings: TextColumn | None = None


Reader = Callable[[Sequence[Any]], Converted]


def small_numbers(values: Sequence[Any]) -> Converted | None:
    """Returns ints, floats and None as numbers, or None if an int may be too large for a float. Bools would be numbers too."""
    floats = np.array(values, dtype=np.float64)  # None becomes NaN
    present = floats == floats
    places = None if present.all() else np.flatnonzero(present)
    if places is not None:
        floats = floats[places]
    if not (np.abs(floats) < EXACT).all():
        return None
    return Converted(Kind.NUMBER, places, *split_floats(floats))


def moments_of(values: Sequence[datetime.datetime]) -> NDArray[np.int64]:
    """Returns microseconds since the epoch; a naive time is UTC."""
    import pyarrow as pa  # takes a quarter of the time that Python's subtraction takes

    if not {value.tzinfo for value in values} <= {None, datetime.UTC}:
        offsets = {value.utcoffset() for value in values}
        if any(offset is not None and offset.microseconds for offset in offsets):  # Arrow takes whole seconds
            raise ValueError
    try:
        array = pa.array(values, pa.timestamp("us", "UTC"))
    except (pa.ArrowException, OverflowError) as error:
        raise ValueError from error
    counts: NDArray[np.int64] = array.cast(pa.int64()).to_numpy()
    return counts


def _texts(values: Sequence[str]) -> Converted:
    return Converted(Kind.STRING, None, np.arange(len(values)), strings=TextColumn.encoded(values))


def _texts_of_subclass(values: Sequence[str]) -> Converted:
    return _texts(list(map(str.__str__, values)))


def _ints(values: Sequence[int]) -> Converted:
    return Converted(Kind.NUMBER, None, np.array(values, dtype=np.int64))


def _ints_of_numpy(values: Sequence[Any]) -> Converted:
    return _ints(list(map(int, values)))


def _floats(values: Sequence[float]) -> Converted:
    floats = np.array(values, dtype=np.float64)
    present = floats == floats
    places = None if present.all() else np.flatnonzero(present)
    return Converted(Kind.NUMBER, places, *split_floats(floats if places is None else floats[places]))


def _floats_of_numpy(values: Sequence[Any]) -> Converted:
    return _floats(list(map(float, values)))


def _bools(values: Sequence[Any]) -> Converted:
    return Converted(Kind.BOOLEAN, None, np.array(values, dtype=np.int64))


def _datetimes(values: Sequence[datetime.datetime]) -> Converted:
    return Converted(Kind.TIMESTAMP, None, moments_of(values))


def _dates(values: Sequence[datetime.date]) -> Converted:
    days = np.fromiter(map(datetime.date.toordinal, values), np.int64, len(values))
    return Converted(Kind.TIMESTAMP, None, (days - FIRST_DAY) * DAY)


def _decimals(values: Sequence[decimal.Decimal]) -> Converted:
    """A decimal is the float with the same digits, which is certain for few digits and no extreme exponent."""
    texts = list(map(str, values))
    if max(map(len, texts)) > SURE_DIGITS:
        raise ValueError
    found = _floats(list(map(float, texts)))
    rest = 0.0 if found.rest is None else found.rest
    size = np.abs(found.whole + rest)
    if not (size < EXACT).all() or ("E" in "".join(texts) and (size < SMALLEST_NORMAL).any()):
        raise ValueError
    return found


def _datetime64s(values: Sequence[np.datetime64]) -> Converted:
    kinds = set(map(np.datetime_data, {value.dtype for value in values}))
    if len(kinds) > 1:
        raise TypeError
    times = np.array(values)
    present = ~np.isnat(times)
    places = None if present.all() else np.flatnonzero(present)
    if places is not None:
        times = times[places]
    exact = times.astype("datetime64[us]")
    if kinds.pop()[0] not in FINER_THAN_MICROSECONDS and (exact.astype(times.dtype) != times).any():
        raise OverflowError
    return Converted(Kind.TIMESTAMP, places, exact.astype(np.int64))


def _pandas_moments(values: Sequence[Any]) -> Converted:
    nanoseconds = [value.value for value in values]  # in UTC; refuses what does not fit 64 bits
    return Converted(Kind.TIMESTAMP, None, np.array(nanoseconds, dtype=np.int64) // 1000)


EXACT_TYPES: dict[type, Reader] = {
    str: _texts,
    int: _ints,
    float: _floats,
    bool: _bools,
    datetime.datetime: _datetimes,
    datetime.date: _dates,
    decimal.Decimal: _decimals,
    np.bool_: _bools,
    np.float64: _floats,
    np.float32: _floats_of_numpy,
    np.float16: _floats_of_numpy,
    np.datetime64: _datetime64s,
    **dict.fromkeys((np.dtype(code).type for code in "bBhHiIlLqQ"), _ints_of_numpy),
}


def reader_of(type_: type) -> Reader | None:
    """Returns the reader of values of a type; None if they are read one by one."""
    reader = EXACT_TYPES.get(type_)
    if reader is not None:
        return reader
    if issubclass(type_, str):
        return _texts_of_subclass
    if type_.__name__ == "Timestamp" and type_.__module__.startswith("pandas."):
        return _pandas_moments
    return None
