"""The blocks of a snapshot. For a single event the dense ones are asked together, in one call."""

from __future__ import annotations

from functools import cached_property

from ray_pubsub.engines.contract import Hits, Segment
from ray_pubsub.engines.dense_run import DenseRun
from ray_pubsub.engines.dense_segment import DenseSegment
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["Blocks"]


class Blocks(tuple[Segment, ...]):
    """Immutable."""

    def match(self, events: EventBatch) -> list[Hits]:
        """Of all of them, in no particular order."""
        if events.size == 1:
            together, others = self.parts
            found = together.match(events) if together is not None else None
            if found is not None:
                return [found, *[block.match(events) for block in others]]
        return [block.match(events) for block in self]

    @cached_property
    def parts(self) -> tuple[DenseRun | None, list[Segment]]:
        """Those that are asked together about a single event, and the others."""
        dense = [block for block in self if isinstance(block, DenseSegment) and block.plain]
        others = [block for block in self if not (isinstance(block, DenseSegment) and block.plain)]
        return (DenseRun(dense) if dense else None), others
