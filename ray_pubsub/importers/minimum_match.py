"""Reads Elasticsearch's `minimum_should_match`: 3, -1 (all but one), "75%", "-25%", and "2<-25% 9<-3" by the number of clauses."""

from __future__ import annotations

import re
from typing import Any

from ray_pubsub.errors import RuleFormatError

__all__ = ["least_of"]


def least_of(given: Any, count: int, format: str) -> int:
    """Returns how many of `count` clauses must match."""
    text = str(given).strip()
    if "<" in text:
        return _conditional(text, count, format)
    if re.fullmatch(r"-?[0-9]{1,9}", text):
        number = int(text)
        return number if number >= 0 else max(0, count + number)
    if re.fullmatch(r"-?[0-9]{1,9}%", text):
        share = int(text[:-1]) * count
        return share // 100 if share >= 0 else max(0, count - (-share // 100))
    raise RuleFormatError(format, f"minimum_should_match {given!r} cannot be expressed")


def _conditional(text: str, count: int, format: str) -> int:
    """Reads conditions in ascending order: the last one whose number is exceeded counts; if none is, all clauses must match."""
    found = count
    for condition in re.sub(r"\s*<\s*", "<", text).split():
        exceeded, _, least = condition.partition("<")
        if not re.fullmatch("[0-9]{1,9}", exceeded) or not least or "<" in least:
            raise RuleFormatError(format, f"minimum_should_match {text!r} cannot be expressed")
        required = least_of(least, count, format)
        if count > int(exceeded):
            found = required
    return found
