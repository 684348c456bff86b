"""Decides whether recent events carry other attributes than earlier ones, from two counts, whatever the number of attributes.

There may be a few attributes that every event carries, or thousands that one event in a thousand does. No single count is significant
alone, so all counts are judged together.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

__all__ = ["Counted", "has_turned"]

FEWEST = 256
"""The fewest events on either side from which anything is concluded."""
SURE = 8.0
"""The number of standard deviations beyond chance. Events of one batch are often alike, so chance has more effect than with independent
events."""
MATTERS = 1e-4
"""The least difference, relative to the squared shares: more than a percent of one attribute in a hundred that are always there."""


@dataclass(slots=True)
class Counted:
    """A number of events, and how many of them carried each attribute."""

    events: float = 0.0
    counts: dict[str, float] = field(default_factory=dict)

    def plus(self, other: Counted) -> Counted:
        """Returns the sum of both; neither changes."""
        counts = self.counts.copy()
        for name, count in other.counts.items():
            counts[name] = counts.get(name, 0.0) + count
        return Counted(self.events + other.events, counts)


def has_turned(known: Counted, recent: Counted) -> bool:
    """Compares the squared distance of the recent counts from the expected ones, less what chance adds to it, with its standard
    deviation."""
    if min(known.events, recent.events) < FEWEST:
        return False
    names = known.counts.keys() | recent.counts.keys()
    before = np.array([known.counts.get(name, 0.0) for name in names])
    counted = np.array([recent.counts.get(name, 0.0) for name in names])
    ratio = recent.events / known.events
    expected = before * ratio
    # One event is added on either side, because an attribute that was always there, or never, may still vary.
    share = np.minimum(1.0, (before + 1) / (known.events + 2))
    variance = recent.events * share * (1 - share) * (1 + ratio)
    distance = float(((counted - expected) ** 2 - variance).sum())
    noise = float(np.sqrt((2 * variance**2 + variance).sum()))
    return distance > SURE * noise and distance > MATTERS * float((expected**2).sum())
