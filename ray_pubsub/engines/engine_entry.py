"""The fields of a row in the table of engines (engines/registry.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ray_pubsub.engines.contract import Build, Engine, Segment
from ray_pubsub.engines.selection.clause_statistics import ClauseStatistics
from ray_pubsub.engines.selection.machine import MachineConstants

__all__ = ["Cost", "EngineEntry", "Estimate", "Flag", "Number", "SegmentType"]


class Estimate(NamedTuple):
    """Nanoseconds an event."""

    alone: float
    in_batch: float


Cost = Callable[[ClauseStatistics, MachineConstants], Estimate | None]
"""Returns the cost of an event with such clauses on such a machine; None if the engine cannot take them."""


class SegmentType(Protocol):
    """A segment class. The engine's options are keywords of both methods."""

    def __call__(self, *clauses: Any, **options: Any) -> Segment:
        """Builds a segment, given (table, vocabulary, frequency); see `Build`."""

    def restored(self, *saved: Any, **options: Any) -> Segment:
        """Builds a segment from the result of its `state`: (state, vocabulary, slots, frequency). Owners must be below `slots`. Raises
        UnfitStateError."""


class Number(NamedTuple):
    """An option that is a whole number."""

    least: int
    most: int

    def problem(self, value: Any) -> str | None:
        if type(value) is int and self.least <= value <= self.most:
            return None
        return f"must be a number from {self.least} to {self.most:,}, not {value!r}"


class Flag:
    """An option that is on or off."""

    def problem(self, value: Any) -> str | None:
        return None if isinstance(value, bool) else f"must be True or False, not {value!r}"


@dataclass(frozen=True, slots=True, eq=False)
class EngineEntry:
    """One engine. Exactly one of `segment`, `choose` and `whole` is given."""

    segment: SegmentType | None = None
    """The class of its segments."""
    choose: Build | None = None
    """Alternatively, a function that picks the engine for each set of clauses."""
    whole: Callable[[], Engine] | None = None
    """Alternatively, a function that creates an engine without segments."""
    options: Mapping[str, Number | Flag] = field(default_factory=dict)
    exclusive: tuple[str, ...] = ()
    """Flags of which at most one may be set."""
    cost: Cost | None = None
    """The cost model for `auto`, which considers only engines that have one."""
    prepared: Callable[[ClauseStatistics, MachineConstants], bool] | None = None
    """Whether a segment is worth preparing (`Segment.prepare`) when it is built, for events like these."""
    favoured: bool = False
    """Whether `auto` uses the cost as it is. Other engines must be better by a margin."""
    part_of_auto: bool = False
    """A building block of `auto`, which cannot be chosen by name."""
