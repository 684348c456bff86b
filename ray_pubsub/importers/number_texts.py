"""Numbers and booleans in rules, and the texts that are written like them: whether a field has the one or the other, a mapping decides,
and there is none here."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["number_in", "other_forms"]

NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")


def number_in(value: Any) -> int | float | None:
    """Returns the number that a value is, or that its text is."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if not isinstance(value, str) or not NUMBER.fullmatch(value) or len(value) > 18:
        return None
    return float(value) if "." in value else int(value)


def other_forms(value: Any) -> list[Any]:
    """Returns the text of a number or boolean, or the number or boolean whose text it is."""
    if isinstance(value, bool):
        return [str(value).lower()]
    if isinstance(value, int | float):
        return [repr(value)]
    number = number_in(value)
    if number is not None and repr(number) == value:
        return [number]
    return [value == "true"] if value in ("true", "false") else []
