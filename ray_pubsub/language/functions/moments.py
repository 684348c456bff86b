"""Timestamps in terms: their parts, and intervals of time.

A timestamp is a number of microseconds in UTC. The difference of two timestamps is a number of microseconds, and so is `interval '1
hour'`. The calendar is numpy's, which covers all 64-bit numbers of microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from ray_pubsub.language.words import BadConstant, read_string
from ray_pubsub.model.values import INT64_MAX, INT64_MIN

__all__ = [
    "PARTS",
    "UNITS",
    "date_part",
    "date_parts",
    "date_trunc",
    "is_unit",
    "read_counted",
    "read_interval",
    "truncated_units",
]

SECOND = 1_000_000
DAY = 86_400 * SECOND
UNITS = {
    "microsecond": 1, "us": 1, "usec": 1, "millisecond": 1000, "ms": 1000, "msec": 1000, "second": SECOND, "sec": SECOND, "s": SECOND,
    "minute": 60 * SECOND, "min": 60 * SECOND, "m": 60 * SECOND, "hour": 3600 * SECOND, "hr": 3600 * SECOND, "h": 3600 * SECOND,
    "day": DAY, "d": DAY, "week": 7 * DAY, "w": 7 * DAY,
}  # fmt: skip
"""Units of time with a fixed length, in microseconds."""
MONTHS = {"year": 12, "quarter": 3, "month": 1}
"""Units of date_trunc that are whole months."""
NOT_FIXED = {"month", "quarter", "year", "decade", "century", "centurie", "millennium", "mon", "y", "yr"}
PIECE = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")
CLOCK = re.compile(r"\s*([+-]?)(\d{1,3}):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?\s*")


def read_interval(text: str) -> int:
    """Converts `'1 hour 30 minutes'`, `'-5 days'`, `'01:30:00'`, `'1 day 01:30:00'` to microseconds."""
    content = read_string(text)
    place, total = 0, 0
    while place < len(content):
        piece, clock = PIECE.match(content, place), CLOCK.fullmatch(content, place)
        if piece is not None:
            total += _span(piece[1], piece[2].lower(), text)
            place = piece.end()
        elif clock is not None:
            total += _clock(clock)
            place = clock.end()
        else:
            break
    if place < len(content) or not content.strip():
        raise BadConstant(f"{text} is not an interval: write it as '1 hour 30 minutes' or '01:30:00'")
    return _checked(total, text)


def read_counted(count: str, unit: str) -> int:
    """Converts `1 hour`, `'1' hour` to microseconds. Only seconds and smaller units may have a fraction, because DuckDB truncates an
    hour's."""
    text = f"{count} {unit}"
    content = read_string(count).strip() if count[0] == "'" else count
    found = COUNT.fullmatch(content)
    if found is None:
        raise BadConstant(
            f"{count} is not a number of {unit}: write interval 1 hour, interval '1' hour or interval '1 hour'"
        )
    span = _span(content, unit.lower(), text)
    if found[1] and _singular(unit.lower()) not in FRACTIONS:
        raise BadConstant(f"{text} has a fraction: write interval '{content} {unit}', or whole numbers")
    return _checked(span, text)


def is_unit(word: str) -> bool:
    """Returns whether a word after `interval 1` is a unit of time, including units without a fixed length."""
    return _singular(word.lower()) in {*UNITS, *NOT_FIXED}


MOST_DIGITS = 100
"""The most digits of a number in an interval: far more than 64 bits can hold, and no more than Python's int() reads."""
COUNT = re.compile(r"[+-]?\d+(\.\d+)?")
FRACTIONS = {"second", "sec", "s"}


def _checked(microseconds: int, text: str) -> int:
    if not INT64_MIN <= microseconds <= INT64_MAX:
        raise BadConstant(f"the interval {text} is beyond 64 bits of microseconds")
    return microseconds


def _clock(clock: re.Match[str]) -> int:
    seconds = int(clock[2]) * 3600 + int(clock[3]) * 60 + int(clock[4] or 0)
    found = seconds * SECOND + int((clock[5] or "0").ljust(6, "0"))
    return -found if clock[1] == "-" else found


def _singular(unit: str) -> str:
    return unit if unit in UNITS else unit.removesuffix("s")


def _span(count: str, unit: str, text: str) -> int:
    singular = _singular(unit)
    if singular in NOT_FIXED:
        raise BadConstant(
            f"a {singular} has no fixed length in {text}; use days, or date_trunc and date_part for the calendar"
        )
    if singular not in UNITS:
        raise BadConstant(f"there is no unit {unit} of time in {text}")
    if len(count) > MOST_DIGITS:
        raise BadConstant("the interval is beyond 64 bits of microseconds: its number has too many digits")
    whole, _, fraction = count.partition(".")
    found = int(whole) * UNITS[singular]
    if fraction:
        part = UNITS[singular] * int(fraction) // 10 ** len(fraction)
        found += -part if whole.startswith("-") else part
    return found


def _days(moment: int) -> np.datetime64:
    return np.datetime64(moment // DAY, "D")


def _months(moment: int) -> int:
    return int(_days(moment).astype("datetime64[M]").astype(np.int64))


def _day_of_month(moment: int) -> int:
    month = _days(moment).astype("datetime64[M]")
    return moment // DAY - int(month.astype("datetime64[D]").astype(np.int64)) + 1


def _year(moment: int) -> int:
    return _months(moment) // 12 + 1970


def _first_day(year: int) -> int:
    return int(np.datetime64(year - 1970, "Y").astype("datetime64[D]").astype(np.int64))


def _iso_week(moment: int) -> int:
    """Returns the ISO week. A week belongs to the year of its Thursday."""
    day = moment // DAY
    thursday = day - (day + 3) % 7 + 3
    year = int(np.datetime64(thursday, "D").astype("datetime64[Y]").astype(np.int64)) + 1970
    return (thursday - _first_day(year)) // 7 + 1


PARTS: dict[str, Callable[[int], int | float]] = {
    "year": _year,
    "quarter": lambda moment: _months(moment) % 12 // 3 + 1,
    "month": lambda moment: _months(moment) % 12 + 1,
    "week": _iso_week,
    "day": _day_of_month,
    "doy": lambda moment: moment // DAY - _first_day(_year(moment)) + 1,
    "dow": lambda moment: (moment // DAY + 4) % 7,
    "isodow": lambda moment: (moment // DAY + 3) % 7 + 1,
    "hour": lambda moment: moment % DAY // (3600 * SECOND),
    "minute": lambda moment: moment % (3600 * SECOND) // (60 * SECOND),
    "second": lambda moment: moment % (60 * SECOND) // SECOND,
    "millisecond": lambda moment: moment % (60 * SECOND) // 1000,
    "microsecond": lambda moment: moment % (60 * SECOND),
    "epoch": lambda moment: moment / SECOND,
}
"""The parts for `extract(… from t)` and `date_part('…', t)`. Sunday is day 0 of the week, Monday is day 1 of the ISO week."""
OTHER_NAMES = {
    "dayofweek": "dow", "weekday": "dow", "dayofyear": "doy", "weekofyear": "week", "dayofmonth": "day", "milliseconds": "millisecond",
    "microseconds": "microsecond", "ms": "millisecond", "us": "microsecond", "seconds": "second", "minutes": "minute", "hours": "hour",
    "days": "day", "weeks": "week", "months": "month", "years": "year", "quarters": "quarter",
}  # fmt: skip


def date_parts(with_synonyms: bool = True) -> list[str]:
    """Returns the names that date_part and extract accept."""
    return [*PARTS, *(OTHER_NAMES if with_synonyms else ())]


def truncated_units(with_synonyms: bool = True) -> list[str]:
    """Returns the names that date_trunc accepts."""
    names = [*MONTHS, *(name for name in UNITS if name in PARTS)]
    if not with_synonyms:
        return names
    return [*names, *UNITS, *(name for name, meant in OTHER_NAMES.items() if meant in {*names, *UNITS})]


def date_part(part: str, moment: int) -> int | float | None:
    """Returns one part of a timestamp."""
    name = part.lower()
    read = PARTS.get(OTHER_NAMES.get(name, name))
    return None if read is None else read(moment)


def date_trunc(unit: str, moment: int) -> int | None:
    """Returns the beginning of the unit that a timestamp lies in; weeks begin on Monday."""
    name = OTHER_NAMES.get(unit.lower(), unit.lower())
    if name == "week":
        day = moment // DAY
        return (day - (day + 3) % 7) * DAY
    if name in UNITS:
        return moment - moment % UNITS[name]
    months = MONTHS.get(name)
    if months is None:
        return None
    first = _months(moment) // months * months
    return int(np.datetime64(first, "M").astype("datetime64[D]").astype(np.int64)) * DAY
