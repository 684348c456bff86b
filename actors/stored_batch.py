"""Columns in Ray's object store: events on their way to the shards, matches on their way back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Stored"]


@dataclass(frozen=True, slots=True)
class Stored:
    """Inside something else a reference stays one: who passes it on does not get what it stands for."""

    reference: Any
    count: int = 0
    """How many matches, if it stands for matches."""
