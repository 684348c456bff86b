"""How an event was matched: the parts visited and skipped, and for each step how many clauses the planner expected to remain and how many
did.

A plan is plain data that can be pickled and read in another process; print it to read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["IndexPlan", "Partitions", "Pipeline", "SegmentPlan", "Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a pipeline."""

    attribute: str
    """The attribute that was examined. Of many, the first few and a count; empty if the step does not concern a particular one."""
    method: str
    estimated: float | None
    """The number of clauses that the engine's own planner expected after the step; None if it does not estimate."""
    actual: int
    """Clauses that were left."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Clauses that went through the same steps."""

    of: str
    """What these clauses have in common."""
    clauses: int
    steps: tuple[Step, ...]

    @property
    def matches(self) -> int:
        return self.steps[-1].actual if self.steps else self.clauses


@dataclass(frozen=True, slots=True)
class Partitions:
    """The parts of a segment that can be skipped as a whole. Visited and skipped together are all partitions, and all clauses."""

    of: str
    """What a partition is."""
    visited: int
    skipped: int
    clauses_visited: int
    clauses_skipped: int


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """The plan of one segment. The pipelines divide the clauses of the visited partitions; the clauses left at their ends hold."""

    engine: str
    clauses: int
    partitions: Partitions
    pipelines: tuple[Pipeline, ...]
    verified: int
    """Clauses whose own tests were compared."""
    matches: int
    """Clauses that hold, with those that are equal to them."""
    seconds: float
    """The duration of the match itself, without the explanation."""
    shared: int = 0
    """Clauses that are equal to one of `clauses` and not stored again: they are counted here and in `matches` only."""
    cached: bool = False
    """Whether a batch would find the event's matches in the segment's cache, and take none of these steps."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of all pipelines."""
        return tuple(step for pipeline in self.pipelines for step in pipeline.steps)


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """The plan of one match. matches = those of segments and tails - removed - repeated - refused."""

    segments: tuple[SegmentPlan, ...]
    tails: tuple[SegmentPlan, ...]
    """What was added last and is not in a segment yet."""
    removed: int
    """Clauses that hold, but whose subscription was removed."""
    repeated: int
    """Clauses that hold, but whose subscription has matched by another one already."""
    asked: int
    """Subscriptions whose clauses only find candidates, so that the whole expression was evaluated."""
    refused: int
    """Those of `asked` whose expression was not true."""
    matches: int
    seconds: float
    computed: tuple[tuple[str, str], ...] = ()
    """Terms that subscriptions test and that have a value for this event, with the value: `lower(name)` and `'ann'`."""

    @property
    def parts(self) -> tuple[SegmentPlan, ...]:
        """Segments and tails."""
        return (*self.segments, *self.tails)

    def to_dict(self) -> dict[str, Any]:
        """Returns the plan as dictionaries, lists, strings and numbers."""
        plain: dict[str, Any] = _listed(asdict(self))
        return plain

    def __str__(self) -> str:
        from ray_pubsub.engines.explain.plan_table import written

        return written(self)

    def __rich__(self) -> Any:
        """For rich's consoles, which know their width and colours."""
        from ray_pubsub.engines.explain.plan_table import rendered

        return rendered(self)


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _listed(part) for name, part in value.items()}
    return [_listed(part) for part in value] if isinstance(value, Sequence) and not isinstance(value, str) else value
