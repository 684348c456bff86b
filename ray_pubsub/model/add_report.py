"""The result of adding many subscriptions or rules."""

from __future__ import annotations

from dataclasses import dataclass, field

from ray_pubsub.errors import Rejection, counted

__all__ = ["AddReport"]

SHOWN = 3
"""The number of rejections that are printed; a program reads all of them from `.rejections`."""


@dataclass(frozen=True, slots=True)
class AddReport:
    """The outcome of a bulk add: the number added, and the bad ones with their positions, ids and errors. Printing it shows the first
    few."""

    added: int
    rejections: list[Rejection] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether nothing was rejected."""
        return not self.rejections

    def __str__(self) -> str:
        summary = f"{self.added:,} added, {len(self.rejections):,} rejected"
        shown = [str(rejection) for rejection in self.rejections[:SHOWN]]
        left = len(self.rejections) - len(shown)
        more = [f"… and {counted(left, 'rejection')} more in .rejections"] if left else []
        return "\n".join([summary, *shown, *more])

    def __repr__(self) -> str:
        return f"AddReport({self.added:,} added, {len(self.rejections):,} rejected)"
