"""The cost model's constants: how long one machine takes for the basic steps that all engines share."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

__all__ = ["TYPICAL", "MachineConstants"]


@dataclass(frozen=True, slots=True)
class MachineConstants:
    """In nanoseconds. Only their proportions decide which engine is chosen."""

    word: float
    """ANDing one word of a bit set that is in the cache."""
    mark: float
    """Marking one clause of a list in a block's bit set."""
    entry: float
    """Passing one entry of a pivot list."""
    check: float
    """Fetching one clause from memory, with prefetch, and comparing its first tests."""
    visit: float
    """Reading one place of cold memory: a directory, a partition."""
    count: float
    """Counting down one clause's counter."""
    call: float
    """Calling a segment, whatever the number of events."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not isinstance(value, float) or not math.isfinite(value) or value <= 0:
                raise ValueError(f"{name} must be a positive number of nanoseconds, not {value!r}")

    def to_dict(self) -> dict[str, float]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Any) -> MachineConstants:
        """Raises ValueError, TypeError or KeyError if these are not all the constants."""
        return cls(**{field.name: values[field.name] for field in fields(cls)})


TYPICAL = MachineConstants(word=0.43, mark=0.44, entry=0.7, check=5.2, visit=60.0, count=1.4, call=5_000.0)
"""For tests, and wherever a choice must not depend on the machine."""
