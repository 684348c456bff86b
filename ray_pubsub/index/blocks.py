"""The segments of a snapshot. For a single event, the dense ones are matched together in one call."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

from ray_pubsub.engines.contract import Segment
from ray_pubsub.engines.dense.segment_group import DenseGroup
from ray_pubsub.engines.segment_stats import VectorCacheStats

if TYPE_CHECKING:
    from ray_pubsub.engines.dense.segment import DenseSegment

__all__ = ["Blocks"]


class Blocks(tuple[Segment, ...]):
    """The segments of a snapshot. Immutable."""

    def singles(self) -> VectorCacheStats | None:
        """Returns the statistics of the cache for single events that the joint segments share; None if there was no single event yet."""
        group = self.parts[0] if "parts" in self.__dict__ else None
        return None if group is None else group.cache.stats()

    @cached_property
    def parts(self) -> tuple[DenseGroup | None, list[Segment]]:
        """The segments that can match a single event together, and the others."""
        joint = [block for block in self if block.joint]
        others = [block for block in self if not block.joint]
        return (DenseGroup(cast("list[DenseSegment]", joint)) if joint else None), others
