"""Long lists of values, in runs that one statement takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["chunks"]

VALUES_IN_A_QUERY = 10_000
"""Fewer than SQLite's limit of 32,766."""


def chunks(values: Sequence[Any]) -> Iterator[list[Any]]:
    """The values in runs that fit one query."""
    for start in range(0, len(values), VALUES_IN_A_QUERY):
        yield list(values[start : start + VALUES_IN_A_QUERY])
