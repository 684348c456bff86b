"""Splits long lists of values into runs that fit one statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["chunks"]

VALUES_IN_A_QUERY = 10_000
"""Less than SQLite's limit of 32,766."""


def chunks(values: Sequence[Any]) -> Iterator[list[Any]]:
    """Yields the values in runs that fit one query."""
    for start in range(0, len(values), VALUES_IN_A_QUERY):
        yield list(values[start : start + VALUES_IN_A_QUERY])
