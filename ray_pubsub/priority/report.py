"""What the priority rules answer: levels of a batch, why an event has its level, and how often the filters were wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.errors import EventError, counted

__all__ = ["Measurement", "PriorityBatch", "PriorityExplanation", "SignatureAnswer"]


@dataclass(slots=True, eq=False)
class PriorityBatch:
    """The levels of a batch of events, as numbers: event i has `names[levels[i]]`. A bad event has the default level and is in `errors`."""

    levels: NDArray[np.uint8]
    names: tuple[str, ...]
    event_ids: NDArray[Any]
    errors: list[EventError] = field(default_factory=list)
    version: int = 0
    """The version of the rules (`PriorityRules.version`) that determined them."""
    warnings: list[EventError] = field(default_factory=list)
    """The attributes that were left out because their values cannot be used."""

    def __len__(self) -> int:
        return len(self.levels)

    def __getitem__(self, event: int) -> str:
        return self.names[int(self.levels[event])]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_list())

    def to_list(self) -> list[str]:
        """Returns the names, event by event."""
        return [self.names[level] for level in self.levels.tolist()]

    def counts(self) -> dict[str, int]:
        """Returns the number of events of each level."""
        found = np.bincount(self.levels, minlength=len(self.names)).tolist()
        return dict(zip(self.names, found, strict=True))

    def __repr__(self) -> str:
        bad = f", {counted(len(self.errors), 'bad event')}" if self.errors else ""
        return f"PriorityBatch({', '.join(f'{name}: {count}' for name, count in self.counts().items())}{bad})"


@dataclass(frozen=True, slots=True)
class SignatureAnswer:
    """One signature of an event: the vector's attributes, what bin each value lies in, and what the filters said."""

    discretizer: str
    cell: int
    bins: tuple[tuple[str, str], ...]
    """Attribute and bin, in words."""
    levels: tuple[str, ...]
    """The levels whose filter has the signature."""
    covered: tuple[str, ...]
    """The levels with a rule that covers the cell. Any other level in `levels` is a false positive of its filter."""

    def __str__(self) -> str:
        bins = ", ".join(f"{attribute} {text}" for attribute, text in self.bins) or "no attributes"
        said = ", ".join(self.levels) if self.levels else "no level"
        return f"signature {self.discretizer}/{self.cell} ({bins}): {said}"


@dataclass(frozen=True, slots=True)
class PriorityExplanation:
    """Why an event has its priority; print it to read it."""

    level: str
    """The level that `priority` gives."""
    exact: str
    """The level of the rules that match."""
    rules: tuple[str | int, ...]
    """The rules of level `exact` that match."""
    expressions: tuple[str, ...]
    """The expressions of these rules."""
    signatures: tuple[SignatureAnswer, ...]
    """The signatures that a filter contains."""
    reason: str

    def __str__(self) -> str:
        lines = [f"{self.level}: {self.reason}"]
        lines += [
            f"  rule {rule!r}: {text}" for rule, text in list(zip(self.rules, self.expressions, strict=True))[:10]
        ]
        if len(self.rules) > 10:
            lines.append(f"  … and {len(self.rules) - 10:,} more rules")
        lines += [f"  {signature}" for signature in self.signatures]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Measurement:
    """The filters' answers beside the exact ones (paper Table 3). A false positive is an event whose level the filters put too high;
    its source is the filter if no rule of that level covers the event's cell, else the discretization."""

    events: int
    matched: int
    """The number of events above the default level, by exact matching."""
    reported: int
    """The number of events above the default level, according to the filters."""
    by_filter: int
    by_discretization: int
    missed: int
    """The number of events whose level the filters put too low: always 0."""

    @property
    def unmatched(self) -> int:
        return self.events - self.matched

    @property
    def false_positives(self) -> int:
        return self.by_filter + self.by_discretization

    @property
    def rate(self) -> float:
        """False positives among the events."""
        return self.false_positives / max(1, self.events)

    @property
    def filter_rate(self) -> float:
        return self.by_filter / max(1, self.events)

    @property
    def discretization_rate(self) -> float:
        return self.by_discretization / max(1, self.events)

    def __str__(self) -> str:
        return (
            f"{self.events:,} events: {self.matched:,} matched, {self.reported:,} reported, "
            f"{self.false_positives:,} false positives ({self.rate:.4%}): "
            f"{self.by_filter:,} of the filters ({self.filter_rate:.4%}), "
            f"{self.by_discretization:,} of the discretization ({self.discretization_rate:.4%})"
        )
