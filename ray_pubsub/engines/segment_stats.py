"""A segment in numbers, for `stats()`. Plain data that pickles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["BlockStats", "CacheStats", "VectorCacheStats"]


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Of the blocks there are now, each counted since it was built."""

    steps: int
    """Steps of matching that a cached bit set could have shortened."""
    hits: int
    """Those that began at one."""

    @property
    def hit_rate(self) -> float | None:
        """None if there were no steps yet."""
        return self.hits / self.steps if self.steps else None


@dataclass(frozen=True, slots=True)
class VectorCacheStats:
    """Of caches from code vectors to matches (engines/vector_cache/), of the blocks there are now, each counted since it was built."""

    on: bool
    """Whether one is in use: it is switched off where too few events repeat the codes of others, or where matching takes less time."""
    events: int
    """Events that were looked up."""
    hits: int
    """Those that needed no matching."""
    vectors: int
    bytes: int
    saved: float
    """Seconds of CPU time that were saved, about."""

    @property
    def hit_rate(self) -> float | None:
        """None if no event was looked up."""
        return self.hits / self.events if self.events else None

    @classmethod
    def total(cls, parts: Sequence[VectorCacheStats]) -> VectorCacheStats:
        """Several as one."""
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
    """One block."""

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
    """What the engine says of its index, by name: buckets, cells, pivots, …"""
    vectors: VectorCacheStats | None = None
    """None if the engine has no cache of code vectors."""
