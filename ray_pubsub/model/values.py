"""One value of an event or a constant: its kind, and the plain Python object that orders it within the kind.

    NUMBER      int (64 bits) or float; Python compares the two exactly, so 2**53 and 2**53 + 1 differ
    STRING      str; Python orders by code point
    BOOLEAN     bool; false < true; never equal to a number
    TIMESTAMP   int, microseconds since 1970-01-01 UTC
    LIST        tuple of elements: a Value, None for null, or a dictionary of Values by attribute for an object

Values of different kinds are never compared: the answer is unknown. Lists are not compared at all: functions look into them.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.settings import EVENT_DEPTH, LIST_ELEMENTS

__all__ = [
    "GIVEN_TWICE",
    "INT64_MAX",
    "INT64_MIN",
    "TOO_DEEP",
    "Kind",
    "Value",
    "ValueProblem",
    "microseconds",
    "read_value",
    "show_microseconds",
]

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
LARGEST_EXPONENT = 400  # far beyond int64 and float64; Decimal('1e999999') would take minutes to become an int
GIVEN_TWICE = "given twice, once with a dot in its name and once nested"
TOO_DEEP = f"nested more than {EVENT_DEPTH} deep"
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Kind(IntEnum):
    NUMBER = 0
    STRING = 1
    BOOLEAN = 2
    TIMESTAMP = 3
    LIST = 4

    def __str__(self) -> str:
        return self.name.lower()


class Value(NamedTuple):
    kind: Kind
    plain: Any


class ValueProblem(ValueError):  # noqa: N818 - not an error of the public tree; callers add the attribute and raise EventError
    """Why a Python object is not a value."""


def read_value(raw: Any) -> Value | None:
    """Returns the value of a Python object, or None if it means absent. Raises ValueProblem for any other type."""
    reader = READERS.get(type(raw), _read_uncommon)
    value: Value | None = reader(raw)
    return value


def microseconds(moment: datetime.datetime) -> int:
    """Returns the microseconds since the epoch. A naive time is UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    difference = moment - EPOCH
    return (difference.days * 86_400 + difference.seconds) * 1_000_000 + difference.microseconds


def show_microseconds(count: int) -> str:
    """Returns the timestamp as text, in UTC. Times outside the calendar of Python's datetime are shown as numpy shows them."""
    text = str(np.datetime64(count, "us")).replace("T", " ").removesuffix(".000000")
    if text[0] != "-":
        return text
    year, dash, rest = text[1:].partition("-")
    return f"-{int(year):04}{dash}{rest}"


def _read_int(raw: int) -> Value:
    if not INT64_MIN <= raw <= INT64_MAX:
        raise ValueProblem(f"the integer {raw if abs(raw) < 10**40 else '…'} does not fit 64 bits")
    return Value(Kind.NUMBER, raw)


def _read_float(raw: float) -> Value | None:
    return None if raw != raw else Value(Kind.NUMBER, raw)


def _read_string(raw: str) -> Value:
    try:
        raw.encode()
    except UnicodeEncodeError as error:
        raise ValueProblem(f"the string has a lone surrogate at {error.start}, so it is not valid Unicode") from None
    return Value(Kind.STRING, raw)


def _read_decimal(raw: decimal.Decimal) -> Value | None:
    if raw.is_nan():
        return None
    if not raw.is_infinite() and raw.adjusted() > LARGEST_EXPONENT:
        raise ValueProblem(f"the decimal {raw:.3e} does not fit 64 bits")
    if not raw.is_infinite() and raw == raw.to_integral_value():
        return _read_int(int(raw))
    # A decimal stands for the number that the same digits denote in an expression. Digits that a double cannot hold are an error and not
    # silently rounded.
    number = float(raw)
    if not raw.is_infinite() and decimal.Decimal(repr(number)) != raw:
        raise ValueProblem(f"the decimal {raw} has more digits than a 64-bit float holds")
    return Value(Kind.NUMBER, number)


def _read_datetime(raw: datetime.datetime) -> Value | None:
    if raw != raw:  # pandas.NaT
        return None
    return Value(Kind.TIMESTAMP, microseconds(raw))


def _read_date(raw: datetime.date) -> Value:
    return Value(Kind.TIMESTAMP, (raw - EPOCH.date()).days * 86_400_000_000)


def _read_datetime64(raw: np.datetime64) -> Value | None:
    if np.isnat(raw):
        return None
    exact = raw.astype("datetime64[us]")
    if np.datetime_data(raw.dtype)[0] not in FINER_THAN_MICROSECONDS and exact.astype(raw.dtype) != raw:
        raise ValueProblem("the time is beyond 64 bits of microseconds")
    return Value(Kind.TIMESTAMP, int(exact.astype(np.int64)))


def _read_list(raw: Any, depth: int = 1) -> Value:
    """Reads a list, a tuple or a one-dimensional array, whose elements may be of different kinds."""
    if len(raw) > LIST_ELEMENTS:
        raise ValueProblem(f"the list has {len(raw):,} elements; at most {LIST_ELEMENTS:,} can be used")
    if depth > EVENT_DEPTH:
        raise ValueProblem(TOO_DEEP)
    return Value(Kind.LIST, tuple([_read_element(element, depth) for element in raw]))


def _read_element(raw: Any, depth: int) -> Any:
    """Returns a Value, None for null, or a dictionary of Values."""
    if type(raw) in LISTS:
        return _read_list(raw, depth + 1)
    if type(raw) not in READERS and isinstance(raw, Mapping):
        found: dict[str, Value] = {}
        _read_object(raw, "", found, depth + 1)
        return found
    return read_value(raw)


def _read_object(raw: Mapping[Any, Any], prefix: str, found: dict[str, Value], depth: int) -> None:
    """Reads the attributes of an element that is an object, nested ones joined with dots."""
    if depth > EVENT_DEPTH:
        raise ValueProblem(TOO_DEEP)
    for key, inner in raw.items():
        if not isinstance(key, str):
            raise ValueProblem(f"an attribute's name is a str, not {type(key).__name__}")
        if type(inner) not in READERS and isinstance(inner, Mapping):
            _read_object(inner, f"{prefix}{key}.", found, depth + 1)
            continue
        value = _read_list(inner, depth + 1) if type(inner) in LISTS else read_value(inner)
        if value is not None:
            if prefix + key in found:
                raise ValueProblem(f"{prefix}{key} is {GIVEN_TWICE}")
            found[prefix + key] = value


def _read_array(raw: Any) -> Value | None:
    if raw.ndim == 0:
        return read_value(raw.item())
    if raw.ndim > 1:
        return _read_list(raw.tolist())
    return _read_list(raw if raw.dtype.kind in "Mm" else raw.tolist())


LISTS = {list, tuple}
FINER_THAN_MICROSECONDS = {"ns", "ps", "fs", "as"}
READERS: dict[type, Any] = {
    int: _read_int,
    float: _read_float,
    str: _read_string,
    bool: lambda raw: Value(Kind.BOOLEAN, raw),
    type(None): lambda raw: None,
    datetime.datetime: _read_datetime,
    datetime.date: _read_date,
    decimal.Decimal: _read_decimal,
    np.datetime64: _read_datetime64,
    list: _read_list,
    tuple: _read_list,
    np.ndarray: _read_array,
}


def _read_uncommon(raw: Any) -> Value | None:
    """Reads subclasses (str enums, pandas.Timestamp, NaT) and numpy scalars."""
    if isinstance(raw, np.generic) and not isinstance(raw, np.datetime64 | np.timedelta64):
        plain = raw.item()
        if type(plain) in READERS:
            return read_value(plain)
    for base in (bool, int, float, str, datetime.datetime, datetime.date, decimal.Decimal, list, tuple):
        if isinstance(raw, base):
            if base is str:
                raw = str.__str__(raw)
            if base is datetime.datetime and hasattr(raw, "to_datetime64"):
                return _read_datetime64(
                    raw.tz_convert(None).to_datetime64() if raw.tzinfo else raw.to_datetime64()
                )  # pandas
            value: Value | None = READERS[base](raw)
            return value
    if type(raw).__name__ in ("NaTType", "NAType"):
        return None
    raise ValueProblem(f"a value of type {type(raw).__name__} is not a number, string, boolean, timestamp or list")
