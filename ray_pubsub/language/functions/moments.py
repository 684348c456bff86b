"""Timestamps in terms: their parts, the units that they lie in, and the calendar's months.

A timestamp is a number of microseconds in UTC. The difference of two timestamps is a number of microseconds, and so is an interval of
fixed length (intervals.py). The calendar is numpy's, which covers all 64-bit numbers of microseconds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ray_pubsub.language.functions.intervals import LENGTHS, MONTHS, SECOND, UNIT_NAMES
from ray_pubsub.language.words import moment_of
from ray_pubsub.model.values import INT64_MAX, INT64_MIN

__all__ = ["PARTS", "add_months", "date_part", "date_parts", "date_trunc", "to_timestamp", "truncated_units"]

DAY = LENGTHS["day"]


def to_timestamp(value: str | int | float) -> int | None:
    """Returns the timestamp of a text that is written as in a constant, or of a number of seconds since 1970, as JSON has them."""
    if isinstance(value, str):
        return moment_of(value)
    moment = value * SECOND
    if not abs(moment) <= INT64_MAX:
        return None
    moment = moment if isinstance(moment, int) else round(moment)
    return moment if INT64_MIN < moment <= INT64_MAX else None


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


def _iso_year_and_week(moment: int) -> tuple[int, int]:
    """Returns the ISO year and week. A week belongs to the year of its Thursday."""
    day = moment // DAY
    thursday = day - (day + 3) % 7 + 3
    year = int(np.datetime64(thursday, "D").astype("datetime64[Y]").astype(np.int64)) + 1970
    return year, (thursday - _first_day(year)) // 7 + 1


def _year_and_week(moment: int) -> int:
    """Returns year and week as one number: 202453. Before our era, the week is subtracted, as in DuckDB."""
    year, week = _iso_year_and_week(moment)
    return year * 100 + (week if year > 0 else -week)


def _towards_zero(number: int, divisor: int) -> int:
    return number // divisor if number >= 0 else -(-number // divisor)


def _counted_from_one(moment: int, years: int) -> int:
    """Returns the century or millennium: the 21st begins with 2001 and the first before our era ends with the year 0."""
    year = _year(moment)
    return _towards_zero(year - 1, years) + 1 if year > 0 else _towards_zero(year, years) - 1


JULIAN_1970 = 2_440_588


PARTS: dict[str, Callable[[int], int | float]] = {
    "era": lambda moment: int(_year(moment) > 0),
    "millennium": lambda moment: _counted_from_one(moment, 1000),
    "century": lambda moment: _counted_from_one(moment, 100),
    "decade": lambda moment: _towards_zero(_year(moment), 10),
    "year": _year,
    "quarter": lambda moment: _months(moment) % 12 // 3 + 1,
    "month": lambda moment: _months(moment) % 12 + 1,
    "isoyear": lambda moment: _iso_year_and_week(moment)[0],
    "yearweek": _year_and_week,
    "week": lambda moment: _iso_year_and_week(moment)[1],
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
    "julian": lambda moment: moment // DAY + JULIAN_1970 + moment % DAY / DAY,
    **dict.fromkeys(("timezone", "timezone_hour", "timezone_minute"), lambda moment: 0),
}
"""The parts for `extract(… from t)` and `date_part('…', t)`. Sunday is day 0 of the week, Monday is day 1 of the ISO week. All timestamps
are in UTC, so the parts of a time zone are 0."""
OTHER_NAMES = {
    **UNIT_NAMES,
    "dayofweek": "dow", "weekday": "dow", "dayofyear": "doy", "weekofyear": "week", "dayofmonth": "day",
}  # fmt: skip


def date_parts(with_synonyms: bool = True) -> list[str]:
    """Returns the names that date_part and extract accept."""
    return [*PARTS, *(OTHER_NAMES if with_synonyms else ())]


def truncated_units(with_synonyms: bool = True) -> list[str]:
    """Returns the names that date_trunc accepts."""
    names = [*reversed(MONTHS), "isoyear", *reversed(LENGTHS)]
    return [*names, *(other for other, meant in OTHER_NAMES.items() if meant in names)] if with_synonyms else names


def date_part(part: str, moment: int) -> int | float | None:
    """Returns one part of a timestamp."""
    name = part.lower()
    read = PARTS.get(OTHER_NAMES.get(name, name))
    return None if read is None else read(moment)


def date_trunc(unit: str, moment: int) -> int | None:
    """Returns the beginning of the unit that a timestamp lies in; weeks begin on Monday. None if it is beyond 64 bits."""
    found = _beginning(unit, moment)
    return found if found is not None and found > INT64_MIN else None


def _beginning(unit: str, moment: int) -> int | None:
    name = OTHER_NAMES.get(unit.lower(), unit.lower())
    if name == "week":
        return _monday(moment // DAY) * DAY
    if name == "isoyear":
        year, _ = _iso_year_and_week(moment)
        return _monday(_first_day(year) + 3) * DAY
    if name in LENGTHS:
        return moment - moment % LENGTHS[name]
    months = MONTHS.get(name)
    if months is None:
        return None
    if months > 12:
        years = months // 12
        return _first_day(_towards_zero(_year(moment), years) * years) * DAY
    return _first_of_month(_months(moment) // months * months) * DAY


def _monday(day: int) -> int:
    return day - (day + 3) % 7


def _first_of_month(month: int) -> int:
    """Returns the first day of a month, both counted from 1970."""
    return int(np.datetime64(month, "M").astype("datetime64[D]").astype(np.int64))


def add_months(moment: int, months: int | float) -> int | None:
    """Returns the same time of the same day of another month, or of its last day if it is shorter."""
    if not isinstance(months, int) or abs(months) > MOST_MONTHS_APART:
        return None
    month = _months(moment) + months
    first = _first_of_month(month)
    day = min(first + _day_of_month(moment) - 1, _first_of_month(month + 1) - 1)
    found = day * DAY + moment % DAY
    return found if INT64_MIN < found <= INT64_MAX else None


MOST_MONTHS_APART = 12 * 600_000
"""More months than 64 bits of microseconds have."""
