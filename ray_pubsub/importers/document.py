"""Reads rules that are JSON, and checks what every importer relies on: names are texts, integers have 64 bits, sizes are bounded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ray_pubsub.errors import RuleFormatError
from ray_pubsub.model.values import INT64_MAX, INT64_MIN

__all__ = ["checked", "read_json"]

MOST_PARTS, DEEPEST = 100_000, 100
"""Of one rule. YAML's aliases make a short text stand for a document without end."""


def read_json(given: Any, format: str) -> Any:
    """Returns a rule that is a document, or the text of one."""
    if isinstance(given, str | bytes):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise RuleFormatError(format, f"this is not JSON: {error}") from None
    return checked(given, format)


def checked(document: Any, format: str) -> Any:
    """Returns the document, if it can be read without surprises."""
    parts, waiting = 0, [(document, 0)]
    while waiting:
        part, depth = waiting.pop()
        parts += 1
        if depth > DEEPEST or parts > MOST_PARTS:
            raise RuleFormatError(
                format, f"it has more than {MOST_PARTS} parts, or is nested more than {DEEPEST} times"
            )
        if isinstance(part, Mapping):
            if not all(isinstance(name, str) for name in part):
                raise RuleFormatError(format, "the names in it must be texts")
            waiting += [(each, depth + 1) for each in part.values()]
        elif isinstance(part, list | tuple):
            waiting += [(each, depth + 1) for each in part]
        elif isinstance(part, int) and not INT64_MIN <= part <= INT64_MAX:
            raise RuleFormatError(format, "an integer does not fit 64 bits")
    return document
