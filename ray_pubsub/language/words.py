"""Reads and writes names, keywords and constants, so that the parser and the printer agree."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from ray_pubsub.model.values import INT64_MAX, INT64_MIN, Kind, show_microseconds

__all__ = [
    "KEYWORDS",
    "MOMENTS",
    "BadConstant",
    "moment_of",
    "read_date",
    "read_moment",
    "read_number",
    "read_special",
    "read_string",
    "write_name",
    "write_operand",
]

KEYWORDS = {
    "and": "AND",
    "or": "OR",
    "not": "NOT",
    "between": "BETWEEN",
    "in": "IN",
    "like": "LIKE",
    "regexp": "REGEXP",
    "rlike": "REGEXP",
    "is": "IS",
    "null": "NULL",
    "true": "TRUE",
    "false": "FALSE",
}
WORDS_OF_CASE = {"case", "when", "then", "else", "end"}
"""Names as any other, but for within `case … end`, where only a quoted one is a name."""
MOMENTS = {"current_timestamp": "now", "current_date": "today"}
"""SQL's names for the current time. An attribute with such a name must be quoted."""
BARE_NAME = re.compile(r"[^\W\d][\w$]*(?:\.[^\W\d][\w$]*)*")
MOMENT = re.compile(
    r"(?P<date>[+-]?\d{4,6}-\d\d-\d\d)(?:[ T](?P<time>\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)\s*(?P<zone>Z|z|UTC|[+-]\d\d(?::?\d\d)?)?)?"
)


class BadConstant(ValueError):  # noqa: N818 - the parser adds the predicate and raises ExpressionTypeError
    """Says why the text of a constant is not valid."""


def read_number(text: str, negative: bool = False) -> int | float:
    """Reads `580`, `5.8e2`, `.5`: an int if written as one, else the nearest double."""
    if text.isdecimal():
        number = -int(text) if negative else int(text)
        if len(text) > 18 and not INT64_MIN <= number <= INT64_MAX:
            raise BadConstant(f"the integer {'-' * negative}{text} does not fit 64 bits")
        return number
    value = float(text)
    if value == float("inf"):
        raise BadConstant(f"the number {text} is too large for a 64-bit float")
    return -value if negative else value


def read_string(text: str) -> str:
    """`'it''s'` → it's"""
    content = text[1:-1]
    if content.isalnum() and content.isascii():  # most constants: nothing to undo, nothing to check
        return content
    try:
        content.encode()
    except UnicodeEncodeError:
        raise BadConstant("the string has a lone surrogate, so it is not valid Unicode") from None
    return content.replace("''", "'")


def read_moment(text: str) -> int:
    """Reads `2024-05-01` or `2024-05-01 10:30:00.25+02:00` as microseconds; without a zone it is UTC."""
    return _moment(text, with_time=True)


def moment_of(content: str) -> int | None:
    """Returns the microseconds of an event's text that is written as a constant's; None if it is no timestamp."""
    try:
        return _moment_of(content, with_time=True)
    except (ValueError, OverflowError):
        return None


def read_date(text: str) -> int:
    """Reads a date as a timestamp at midnight; a time of day is ignored, as in SQL's casts."""
    return _moment(text, with_time=False)


def _moment(text: str, with_time: bool) -> int:
    try:
        return _moment_of(read_string(text), with_time)
    except BadConstant:
        raise
    except (ValueError, OverflowError) as error:
        reason = str(error).partition(" in datetime string")[0]
        raise BadConstant(f"{text} is not a timestamp: {reason[:1].lower()}{reason[1:]}") from None


def _moment_of(content: str, with_time: bool) -> int:
    found = MOMENT.fullmatch(content.strip())
    if found is None:
        raise ValueError("write it as YYYY-MM-DD or YYYY-MM-DD HH:MM:SS[.ffffff][+HH:MM]")
    # numpy's calendar goes as far as 64 bits of microseconds do, Python's ends with the year 9999. Days and time of day
    # are added in Python, since numpy would wrap around.
    moment = int(np.datetime64(found["date"], "D").astype(np.int64)) * 86_400_000_000
    if with_time:
        moment += int(np.datetime64(f"1970-01-01T{found['time'] or '00:00'}", "us").astype(np.int64))
        moment -= _zone_offset(found["zone"] or "Z")
    if not INT64_MIN < moment <= INT64_MAX:
        raise ValueError("it is beyond 64 bits of microseconds")
    return moment


def _zone_offset(zone: str) -> int:
    if zone.upper() in ("Z", "UTC"):
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        raise ValueError(f"there is no zone {zone}")
    return (hours * 60 + minutes) * (60_000_000 if zone[0] == "+" else -60_000_000)


def read_special(text: str) -> float:
    """Reads `double 'inf'` and `double '-inf'`, numbers that have no digits."""
    try:
        number = float(read_string(text))
    except ValueError:
        raise BadConstant(f"{text} is not a number") from None
    if number != number:
        raise BadConstant("NaN means absent; use `is null`")
    return number


@lru_cache(maxsize=4096)
def write_name(name: str) -> str:
    """Returns the attribute as an identifier, in double quotes where it needs them."""
    if (
        BARE_NAME.fullmatch(name)
        and name.lower() not in MOMENTS
        and not any(part in KEYWORDS or part in WORDS_OF_CASE for part in name.lower().split("."))
    ):
        return name
    return '"' + name.replace('"', '""') + '"'


def write_operand(kind: Kind | None, plain: object) -> str:
    """Returns the constant as text that reads back as the same constant."""
    if kind is None:
        return "null"
    if kind == Kind.STRING:
        return "'" + str(plain).replace("'", "''") + "'"
    if kind == Kind.BOOLEAN:
        return "true" if plain else "false"
    if kind == Kind.TIMESTAMP:
        assert isinstance(plain, int)
        return f"timestamp '{show_microseconds(plain)}'"
    if isinstance(plain, float) and plain in (float("inf"), float("-inf")):
        return f"double '{plain}'"
    return repr(plain)
