"""Intervals of time, as SQL writes them: `interval '1 hour 30 minutes'`, `interval 2 months`.

An interval is a number of months and a number of microseconds. Without months it has a fixed length, and is that number of microseconds
wherever a number may stand. Months have no fixed length, so such an interval can only be added to a timestamp or subtracted from one
(`add_months`).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ray_pubsub.language.words import BadConstant, read_string
from ray_pubsub.model.values import INT64_MAX, INT64_MIN

__all__ = [
    "LENGTHS",
    "MONTHS",
    "SECOND",
    "UNIT_NAMES",
    "Interval",
    "checked",
    "is_unit",
    "no_fixed_length",
    "read_counted",
    "read_interval",
    "read_span",
]

SECOND = 1_000_000
LENGTHS = {
    "microsecond": 1, "millisecond": 1000, "second": SECOND, "minute": 60 * SECOND, "hour": 3600 * SECOND, "day": 86_400 * SECOND,
    "week": 7 * 86_400 * SECOND,
}  # fmt: skip
"""Units of time with a fixed length, in microseconds."""
MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200, "millennium": 12_000}
"""Units of time that are whole months."""
UNIT_NAMES = {
    other: unit
    for unit, others in {
        "microsecond": "us usec usecs usecond useconds microseconds",
        "millisecond": "ms msec msecs msecond milliseconds",
        "second": "s sec secs seconds",
        "minute": "m min mins minutes",
        "hour": "h hr hrs hours",
        "day": "d days",
        "week": "w weeks",
        "month": "mon mons months",
        "quarter": "quarters",
        "year": "y yr yrs years",
        "decade": "dec decs decades",
        "century": "c cent centuries",
        "millennium": "mil mils millenium millennia",
    }.items()
    for other in others.split()
}
"""Other names of the units, as DuckDB has them."""
PIECE = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")
CLOCK = re.compile(r"\s*([+-]?)(\d{1,3}):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?\s*")
COUNT = re.compile(r"[+-]?\d+(\.\d+)?")
MOST_DIGITS = 100
"""The most digits of a number in an interval: far more than 64 bits can hold, and no more than Python's int() reads."""
MOST_MONTHS = 2**31 - 1


class Interval(NamedTuple):
    """Months, and microseconds beside them."""

    months: int
    microseconds: int


def read_interval(text: str) -> int:
    """Converts an interval of fixed length to microseconds."""
    return _fixed(read_span(text), text)


def read_counted(count: str, unit: str) -> int:
    """Converts `1 hour`, `'1' hour` to microseconds, if the unit has a fixed length."""
    return _fixed(read_span(count, unit), f"{count} {unit}")


def read_span(written: str, unit: str | None = None) -> Interval:
    """Reads `'1 hour 30 minutes'`, `'-5 days'`, `'01:30:00'`, `'1 month 01:30:00'`; with a unit, `1` or `'1'`."""
    if unit is not None:
        return _counted(written, unit)
    content = read_string(written)
    place = months = microseconds = 0
    while place < len(content):
        piece, clock = PIECE.match(content, place), CLOCK.fullmatch(content, place)
        if piece is not None:
            found = _span(piece[1], piece[2], written)
            months += found.months
            microseconds += found.microseconds
            place = piece.end()
        elif clock is not None:
            microseconds += _clock(clock)
            place = clock.end()
        else:
            break
    if place < len(content) or not content.strip():
        raise BadConstant(f"{written} is not an interval: write it as '1 hour 30 minutes' or '01:30:00'")
    return checked(Interval(months, microseconds), written)


def is_unit(word: str) -> bool:
    """Returns whether a word after `interval 1` is a unit of time."""
    word = word.lower()
    return UNIT_NAMES.get(word, word) in {*LENGTHS, *MONTHS}


def checked(found: Interval, text: str) -> Interval:
    """Returns the interval; raises BadConstant if it is too long."""
    if not INT64_MIN <= found.microseconds <= INT64_MAX:
        raise BadConstant(f"the interval {text} is beyond 64 bits of microseconds")
    if abs(found.months) > MOST_MONTHS:
        raise BadConstant(f"the interval {text} is beyond 32 bits of months")
    return found


def _fixed(found: Interval, text: str) -> int:
    if found.months:
        raise BadConstant(no_fixed_length(text))
    return found.microseconds


def no_fixed_length(text: str) -> str:
    """Returns the reason why an interval of months is refused as a number."""
    return f"the months in {text} have no fixed length: they can only be added to a timestamp or subtracted from one"


def _counted(count: str, unit: str) -> Interval:
    """Only seconds may have a fraction, because DuckDB truncates an hour's."""
    text = f"{count} {unit}"
    content = read_string(count).strip() if count[0] == "'" else count
    found = COUNT.fullmatch(content)
    if found is None:
        raise BadConstant(
            f"{count} is not a number of {unit}: write interval 1 hour, interval '1' hour or interval '1 hour'"
        )
    span = _span(content, unit, text)
    if found[1] and UNIT_NAMES.get(unit.lower(), unit.lower()) != "second":
        raise BadConstant(f"{text} has a fraction: write interval '{content} {unit}', or whole numbers")
    return checked(span, text)


def _clock(clock: re.Match[str]) -> int:
    seconds = int(clock[2]) * 3600 + int(clock[3]) * 60 + int(clock[4] or 0)
    found = seconds * SECOND + int((clock[5] or "0").ljust(6, "0"))
    return -found if clock[1] == "-" else found


def _span(count: str, word: str, text: str) -> Interval:
    unit = UNIT_NAMES.get(word.lower(), word.lower())
    if not is_unit(unit):
        raise BadConstant(f"there is no unit {word} of time in {text}")
    if len(count) > MOST_DIGITS:
        raise BadConstant("the interval is beyond 64 bits of microseconds: its number has too many digits")
    length = LENGTHS.get(unit) or MONTHS[unit]
    whole, _, fraction = count.partition(".")
    found = int(whole) * length
    if fraction:
        part, rest = divmod(length * int(fraction), 10 ** len(fraction))
        if unit in MONTHS and rest:
            raise BadConstant(f"{count} {word} in {text} is not a whole number of months")
        found += -part if whole.startswith("-") else part
    return Interval(found, 0) if unit in MONTHS else Interval(0, found)
