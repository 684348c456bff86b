"""Builds intervals of time, and sums of a timestamp and an interval that has months."""

from __future__ import annotations

from dataclasses import dataclass

from ray_pubsub.errors import ExpressionTypeError
from ray_pubsub.language.building.constants import BrokenConstant
from ray_pubsub.language.functions.intervals import Interval, checked, no_fixed_length, read_span
from ray_pubsub.language.printer import write_term
from ray_pubsub.language.terms import Term
from ray_pubsub.language.tree import Operand
from ray_pubsub.model.values import Kind

__all__ = ["CalendarInterval", "interval", "is_interval", "moved_by"]


NOTHING = Interval(0, 0)


@dataclass(frozen=True, slots=True)
class CalendarInterval(Operand):
    """An interval with months. Where anything but a sum with a timestamp is built, it is a constant that cannot be read."""

    length: Interval = NOTHING


def interval(counts: list[tuple[str, str | None]], place: int) -> Operand:
    """Builds an interval from counts with their units: `'1 day'` (which has its unit inside), `1 hour`, `1 hour 30 minutes`. The sum of
    several counts has no place in the shape, because no single constant of another text could replace it. Raises BadConstant."""
    months = microseconds = 0
    for count, unit in counts:
        found = read_span(count, unit)
        months += found.months
        microseconds += found.microseconds
    text = " ".join(part for count in counts for part in count if part)
    found = checked(Interval(months, microseconds), text)
    if not found.months:
        return Operand(Kind.NUMBER, found.microseconds, place if len(counts) == 1 else -1)
    broken = BrokenConstant(f"interval {text}", no_fixed_length(text))
    return CalendarInterval(Kind.NUMBER, broken, place, length=found)


def moved_by(function: str, arguments: list[Term]) -> tuple[Term, Interval] | None:
    """Returns the timestamp that a sum or difference moves, and by what. None if no interval with months is involved."""
    left, right = arguments
    if function == "+" and isinstance(left, CalendarInterval):
        left, right = right, left
    if not isinstance(right, CalendarInterval):
        return None
    if isinstance(left, CalendarInterval):
        shown = f" {function} ".join(map(write_term, arguments))
        raise ExpressionTypeError(shown, right.plain.problem, right.place)
    sign = -1 if function == "-" else 1
    return left, Interval(sign * right.length.months, sign * right.length.microseconds)


def is_interval(text: str, term: Term) -> bool:
    """Returns whether a term is written as an interval, not as a number. `text`: of the whole expression."""
    if isinstance(term, CalendarInterval):
        return True
    return isinstance(term, Operand) and term.place >= 0 and text[: term.place].rstrip()[-8:].lower() == "interval"
