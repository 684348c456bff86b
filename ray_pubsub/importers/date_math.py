"""Translates Elasticsearch's dates and date math: `2024-05-01`, `now-1d/d`, `2024-05-01||+1d/M`.

A date that is rounded, or that has no time of day, stands for its whole unit, so the operator decides which end of the unit is meant:
"gte" and "lt" compare with its beginning, "gt" and "lte" with the beginning of the next one.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ray_pubsub.errors import RuleFormatError
from ray_pubsub.importers.field import Written
from ray_pubsub.model.values import microseconds, show_microseconds

__all__ = ["DateReading", "bound_of", "bounds_of", "is_date_math", "looks_like_a_date"]

MATH = re.compile(r"(now|.+?\|\|)((?:[+-]\d*[a-zA-Z])*)(?:/([a-zA-Z]))?")
STEP = re.compile(r"([+-])(\d*)([a-zA-Z])")
SPANS = {
    "s": "seconds",
    "m": "minutes",
    "h": "hours",
    "H": "hours",
    "d": "days",
    "w": "weeks",
    "M": "months",
    "y": "years",
}
ROUNDED = {"s": "second", "m": "minute", "h": "hour", "H": "hour", "d": "day", "w": "week", "M": "month", "y": "year"}
WHOLE_UNIT = {">": ">=", "<=": "<"}
"""Operators that mean the end of a rounded date, and what compares with the beginning of the next unit instead."""


ZONE = re.compile(r"[+-]\d\d:?\d\d")
DATE = re.compile(
    r"(?P<date>\d{4}(?:-\d\d(?:-\d\d)?)?)"
    r"(?:[T ](?P<hour>\d\d)(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?)?)?"
    r"(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?",
    re.IGNORECASE,
)
MISSING = {"hour": "day", "minute": "hour", "second": "minute", "fraction": "second"}
"""The unit that a date stands for if it lacks a part. One without a day or month is the first of them: "2024-05" is May 1st."""
EPOCHS = {"epoch_millis": 1000, "epoch_second": 1_000_000}
"""The microseconds of the unit in which each format counts."""
ISO = {
    "date_optional_time",
    "strict_date_optional_time",
    "strict_date_optional_time_nanos",
    "date_time",
    "strict_date_time",
    "iso8601",
}


class DateReading(NamedTuple):
    """How the dates of a query are written."""

    zone: str = ""
    """Of dates that have none: +01:00."""
    unit: int = EPOCHS["epoch_millis"]
    """Of dates that are numbers, in microseconds."""
    counts: bool = False
    """Whether four digits are a number, too, and no year."""

    @classmethod
    def of(cls, given: Mapping[str, Any], format: str) -> DateReading:
        """Reads the parameters `time_zone` and `format` of a query."""
        zone, names = given.get("time_zone"), given.get("format")
        if zone is not None and (not isinstance(zone, str) or (zone.upper() not in UTC and not ZONE.fullmatch(zone))):
            raise RuleFormatError(format, f"the time_zone {zone!r} cannot be expressed; +01:00 can")
        formats = [] if names is None else str(names).split("||")
        if not set(formats) <= {*EPOCHS, *ISO}:
            raise RuleFormatError(format, f"the format {names!r} of dates cannot be expressed")
        unit = next((EPOCHS[name] for name in formats if name in EPOCHS), EPOCHS["epoch_millis"])
        return cls("" if zone is None or zone.upper() in UTC else zone, unit, bool(formats) and formats[0] in EPOCHS)


UTC = {"UTC", "Z", "GMT", "+00:00"}


def is_date_math(given: Any) -> bool:
    """Returns whether a value can only be meant as date math."""
    return isinstance(given, str) and (re.match(r"now(?:[-+/]|$)", given) is not None or "||" in given)


def looks_like_a_date(given: Any) -> bool:
    """Returns whether a text is written like a date with month and day."""
    found = DATE.fullmatch(given) if isinstance(given, str) else None
    return found is not None and len(found["date"]) == len("2024-05-01")


def bounds_of(given: Any, format: str, reading: DateReading) -> list[tuple[str, Written]]:
    """Returns the bounds of the unit of time that a date stands for, such as a day; of an exact one, both are the same."""
    return [bound_of(operator, given, format, reading) for operator in (">=", "<=")]


def bound_of(operator: str, given: Any, format: str, reading: DateReading) -> tuple[str, Written]:
    """Returns the operator and the term for a comparison with a date, which may be date math, or a number since 1970."""
    text = str(given) if type(given) is int else given
    if not isinstance(text, str):
        raise RuleFormatError(format, f"{given!r} is no date")
    if re.fullmatch("-?[0-9]{1,19}", text) and (reading.counts or len(text) != 4):
        return operator, Written(_since_epoch(int(text), reading.unit, format))
    found = MATH.fullmatch(text)
    if found is None:
        if text.startswith("now"):
            raise RuleFormatError(format, f"the date {text!r} cannot be expressed")
        moment, missing = _moment(text, format, reading.zone)
        if missing and operator in WHOLE_UNIT:
            operator, moment = WHOLE_UNIT[operator], moment + datetime.timedelta(**{f"{missing}s": 1})
        return operator, Written(_written(moment))
    anchor, steps, unit = found.groups()
    if unit and reading.zone:
        raise RuleFormatError(
            format, f"the date {text!r} cannot be expressed: it is rounded in the time zone {reading.zone}"
        )
    term = "now()" if anchor == "now" else _written(_moment(anchor.removesuffix("||"), format, reading.zone)[0])
    for sign, count, span in STEP.findall(steps):
        if span not in SPANS:
            raise RuleFormatError(format, f"the date {text!r} cannot be expressed: there is no unit {span!r} of time")
        term += f" {sign} interval '{count or 1} {SPANS[span]}'"
    if unit is None:
        return operator, Written(term)
    if unit not in ROUNDED:
        raise RuleFormatError(format, f"the date {text!r} cannot be expressed: there is no unit {unit!r} of time")
    term = f"date_trunc('{ROUNDED[unit]}', {term})"
    if operator not in WHOLE_UNIT:
        return operator, Written(term)
    return WHOLE_UNIT[operator], Written(f"{term} + interval '1 {ROUNDED[unit]}'")


def _moment(text: str, format: str, zone: str) -> tuple[datetime.datetime, str]:
    """Returns the beginning of what a date stands for, and its unit; no unit if it has fractions of a second."""
    found = DATE.fullmatch(text.strip())
    try:
        if found is None:
            raise ValueError("write it as 2024-05-01 or 2024-05-01T10:30:00Z")
        day = datetime.date.fromisoformat(found["date"] + "0000-01-01"[len(found["date"]) :])
        hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
        moment = datetime.datetime.combine(day, datetime.time(hour, minute, second)) + datetime.timedelta(
            microseconds=int((found["fraction"] or "0").ljust(6, "0")[:6])
        )
        moment -= _offset(found["zone"] or zone)
    except (ValueError, OverflowError) as error:
        raise RuleFormatError(format, f"{text!r} is no date: {error}") from None
    return moment, next((unit for part, unit in MISSING.items() if found[part] is None), "")


def _offset(zone: str) -> datetime.timedelta:
    if zone.upper() in ("", "Z"):
        return datetime.timedelta()
    digits = zone[1:].replace(":", "").ljust(4, "0")
    length = datetime.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return -length if zone[0] == "-" else length


def _written(moment: datetime.datetime) -> str:
    return f"timestamp '{show_microseconds(microseconds(moment))}'"


def _since_epoch(number: int, unit: int, format: str) -> str:
    if not abs(number) * unit < 1 << 63:
        raise RuleFormatError(format, f"the date {number} is out of range")
    return f"timestamp '{show_microseconds(number * unit)}'"
