"""The statistics of an index: what it holds, in which blocks, and how effective its caches were."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from ray_pubsub.engines.contract import Engine
from ray_pubsub.engines.segment_stats import BlockStats, CacheStats, VectorCacheStats
from ray_pubsub.errors import counted

__all__ = ["BlockStats", "CacheStats", "IndexStats", "VectorCacheStats", "index_stats"]


@dataclass(frozen=True, slots=True)
class IndexStats:
    """The statistics of an index: plain data that can be pickled; `to_dict` is ready to be written as JSON. Print it to read it."""

    engine: str
    subscriptions: int
    clauses: int
    """The number of clauses in blocks and in the tail. Those of removed subscriptions count until their block is merged."""
    blocks: tuple[BlockStats, ...]
    tail: int
    """The number of clauses that were added last and are not in a block yet."""
    removed: int
    """The number of removed subscriptions that the index still keeps track of."""
    bytes: int
    """The approximate size, as in `MatchIndex.nbytes`."""
    cache: CacheStats | None
    """The statistics of cached bit sets; None if no block has any."""
    repivoted: int = 0
    """The number of times that a block was rebuilt, since the index was made or loaded, because events now carry other attributes."""
    vectors: VectorCacheStats | None = None
    """The statistics of caches from the codes of events to their matches; None if no block has one."""

    def blocks_by_engine(self) -> dict[str, int]:
        """Returns the number of blocks of each engine."""
        return dict(Counter(block.engine for block in self.blocks))

    def clauses_by_engine(self) -> dict[str, int]:
        """Returns the number of clauses in the blocks of each engine."""
        found: Counter[str] = Counter()
        for block in self.blocks:
            found[block.engine] += block.clauses + block.shared
        return dict(found)

    def to_dict(self) -> dict[str, Any]:
        """Returns the statistics as dictionaries, lists, strings and numbers."""
        return {**asdict(self), "blocks": [asdict(block) for block in self.blocks]}

    def __str__(self) -> str:
        lines = [
            f"{counted(self.subscriptions, 'subscription')}, {counted(self.clauses, 'clause')}, {_size(self.bytes)}, "
            f"engine {self.engine}",
            *(
                f"  {block.engine}: {counted(block.clauses, 'clause')}, {block.shared:,} more equal to them, {_size(block.bytes)}"
                + "".join(f", {name} {value:,}" for name, value in block.details.items())
                for block in self.blocks
            ),
        ]
        if self.tail:
            lines.append(f"  tail: {counted(self.tail, 'clause')}")
        if self.removed:
            lines.append(f"  removed, not yet forgotten: {counted(self.removed, 'subscription')}")
        if self.repivoted:
            lines.append(f"  pivots chosen again: {counted(self.repivoted, 'time')}")
        if self.cache is not None:
            lines.append(f"  cache: {self.cache.hits:,} of {self.cache.steps:,} steps began at a cached bit set")
        if self.vectors is not None and self.vectors.events:
            lines.append(
                f"  cache of code vectors, {'on' if self.vectors.on else 'off'}: {self.vectors.hits:,} of {self.vectors.events:,} events "
                f"needed no matching, {counted(self.vectors.vectors, 'vector')}, {_size(self.vectors.bytes)}, "
                f"{self.vectors.saved:,.1f} s saved"
            )
        return "\n".join(lines)


def _size(count: int) -> str:
    return f"{count / 2**20:,.1f} MB" if count >= 2**20 else f"{count / 2**10:,.0f} kB"


def index_stats(name: str, subscriptions: int, engine: Engine, more_bytes: int) -> IndexStats:
    """Collects the statistics of an index. `more_bytes` is the size of what is held beside the engine."""
    blocks, tail, removed, repivoted, singles = engine.stats()
    clauses = sum(block.clauses + block.shared for block in blocks) + tail
    caches = [block.cache for block in blocks if block.cache is not None]
    cache = CacheStats(sum(each.steps for each in caches), sum(each.hits for each in caches)) if caches else None
    found = [part for part in (*(block.vectors for block in blocks), singles) if part is not None]
    vectors = VectorCacheStats.total(found) if found else None
    return IndexStats(
        name, subscriptions, clauses, blocks, tail, removed, engine.nbytes + more_bytes, cache, repivoted, vectors
    )
