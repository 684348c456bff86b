"""Translates Elasticsearch's date math: `now-1d/d`, `2024-05-01||+1d/M`.

A rounded date stands for its whole unit, so the operator decides which end of the unit is meant: "gte" and "lt" compare with its
beginning, "gt" and "lte" with the beginning of the next one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ray_pubsub.errors import RuleFormatError
from ray_pubsub.importers.field import Written, constant
from ray_pubsub.model.values import show_microseconds

__all__ = ["DateReading", "bound_of"]

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
OWN_ZONE = re.compile(r"(?:Z|[+-]\d\d:?\d\d)$", re.IGNORECASE)
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
        return cls("" if zone is None or zone.upper() in UTC else zone, unit)


UTC = {"UTC", "Z", "GMT", "+00:00"}


def bound_of(operator: str, given: Any, format: str, reading: DateReading) -> tuple[str, Written]:
    """Returns the operator and the term for a comparison with a date, which may be date math, or a number since 1970."""
    if type(given) is int or (isinstance(given, str) and re.fullmatch("[0-9]{1,3}|[0-9]{5,19}", given)):
        return operator, Written(_since_epoch(int(given), reading.unit, format))
    if not isinstance(given, str):
        raise RuleFormatError(format, f"{given!r} is no date")
    text = given
    found = MATH.fullmatch(text)
    if found is None:
        if text.startswith("now"):
            raise RuleFormatError(format, f"the date {text!r} cannot be expressed")
        return operator, Written(_moment(text, format, reading.zone))
    anchor, steps, unit = found.groups()
    if unit and reading.zone:
        raise RuleFormatError(
            format, f"the date {text!r} cannot be expressed: it is rounded in the time zone {reading.zone}"
        )
    term = "now()" if anchor == "now" else _moment(anchor.removesuffix("||"), format, reading.zone)
    for sign, count, span in STEP.findall(steps):
        if span not in SPANS:
            raise RuleFormatError(format, f"the date {text!r} cannot be expressed: there is no unit {span!r} of time")
        term += f" {sign} interval '{count or 1} {SPANS[span]}'"
    if unit is None:
        return operator, Written(term)
    if unit not in ROUNDED:
        raise RuleFormatError(format, f"the date {text!r} cannot be expressed: there is no unit {unit!r} of time")
    if operator == "=":
        raise RuleFormatError(format, f"the date {text!r} stands for a whole unit of time; write a range of it")
    term = f"date_trunc('{ROUNDED[unit]}', {term})"
    if operator not in WHOLE_UNIT:
        return operator, Written(term)
    return WHOLE_UNIT[operator], Written(f"{term} + interval '1 {ROUNDED[unit]}'")


def _moment(text: str, format: str, zone: str) -> str:
    day, _, time = text.replace("T", " ").partition(" ")
    if zone and not (time and OWN_ZONE.search(time)):
        time = f"{time or '00:00'}{zone}"
    return f"timestamp {constant(f'{day} {time}'.strip().removesuffix('Z'), format)}"


def _since_epoch(number: int, unit: int, format: str) -> str:
    if not abs(number) * unit < 1 << 63:
        raise RuleFormatError(format, f"the date {number} is out of range")
    return f"timestamp '{show_microseconds(number * unit)}'"
