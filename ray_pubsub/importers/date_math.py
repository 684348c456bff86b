"""Translates Elasticsearch's date math: `now-1d/d`, `2024-05-01||+1d/M`.

A rounded date stands for its whole unit, so the operator decides which end of the unit is meant: "gte" and "lt" compare with its
beginning, "gt" and "lte" with the beginning of the next one.
"""

from __future__ import annotations

import re

from ray_pubsub.errors import RuleFormatError
from ray_pubsub.importers.field import Written, constant

__all__ = ["bound_of"]

MATH = re.compile(r"(now|.+?\|\|)((?:[+-]\d*[a-zA-Z])*)(?:/([a-zA-Z]))?")
STEP = re.compile(r"([+-])(\d*)([a-zA-Z])")
SPANS = {"s": "seconds", "m": "minutes", "h": "hours", "H": "hours", "d": "days", "w": "weeks"}
ROUNDED = {"s": "second", "m": "minute", "h": "hour", "H": "hour", "d": "day", "w": "week", "M": "month", "y": "year"}
NEXT = {"M": "32 days", "y": "367 days"}
"""A span that leads from the beginning of a unit without a fixed length into the next one."""
WHOLE_UNIT = {">": ">=", "<=": "<"}
"""Operators that mean the end of a rounded date, and what compares with the beginning of the next unit instead."""


def bound_of(operator: str, text: str, format: str) -> tuple[str, Written]:
    """Returns the operator and the term for a comparison with a date, which may be date math."""
    found = MATH.fullmatch(text)
    if found is None:
        if text.startswith("now"):
            raise RuleFormatError(format, f"the date {text!r} cannot be expressed")
        return operator, Written(_moment(text, format))
    anchor, steps, unit = found.groups()
    term = "now()" if anchor == "now" else _moment(anchor.removesuffix("||"), format)
    for sign, count, span in STEP.findall(steps):
        if span not in SPANS:
            raise RuleFormatError(
                format, f"the date {text!r} cannot be expressed: months and years have no fixed length; now-30d can"
            )
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
    if unit in NEXT:
        following = f"date_trunc('{ROUNDED[unit]}', {term} + interval '{NEXT[unit]}')"
    else:
        following = f"{term} + interval '1 {ROUNDED[unit]}'"
    return WHOLE_UNIT[operator], Written(following)


def _moment(text: str, format: str) -> str:
    return f"timestamp {constant(text.replace('T', ' ').removesuffix('Z'), format)}"
