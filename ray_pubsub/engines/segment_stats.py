"""Statistics of segments, for `stats()`: plain data that can be pickled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["BlockStats", "CacheStats", "VectorCacheStats"]


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Statistics of the current blocks' cached bit sets, each counted since the block was built."""

    steps: int
    """Steps of matching that a cached bit set could have shortened."""
    hits: int
    """Those that started from one."""

    @property
    def hit_rate(self) -> float | None:
        """None if there were no steps yet."""
        return self.hits / self.steps if self.steps else None


@dataclass(frozen=True, slots=True)
class VectorCacheStats:
    """Statistics of the current blocks' caches from code vectors to matches (engines/vector_cache/), each counted since the block was
    built."""

    on: bool
    """Whether one is in use: it is switched off where too few events repeat the codes of others, or where matching takes less time."""
    events: int
    """Events that were looked up."""
    hits: int
    """Looked-up events that needed no matching."""
    vectors: int
    bytes: int
    saved: float
    """The CPU seconds saved, approximately."""

    @property
    def hit_rate(self) -> float | None:
        """None if no event was looked up."""
        return self.hits / self.events if self.events else None

    @classmethod
    def total(cls, parts: Sequence[VectorCacheStats]) -> VectorCacheStats:
        """Adds several up."""
        return cls(
            any(part.on for part in parts),
            sum(part.events for part in parts),
            sum(part.hits for part in parts),
            sum(part.vectors for part in parts),
            sum(part.bytes for part in parts),
            sum(part.saved for part in parts),
        )


@dataclass(frozen=True, slots=True)
class BlockStats:
    """The statistics of one block."""

    engine: str
    """The engine that built it. "cnf" holds conjunctions of disjunctions, which have blocks of their own in every engine."""
    clauses: int
    """Clauses that are stored."""
    shared: int
    """Clauses that equal a stored one, and are not stored again."""
    bytes: int
    cache: CacheStats | None = None
    """None if the block keeps no cached bit sets."""
    details: dict[str, int] = field(default_factory=dict)
    """Figures about the engine's index, by name: buckets, cells, pivots, …"""
    vectors: VectorCacheStats | None = None
    """None if the engine has no cache of code vectors."""
