"""An index in numbers: what it holds, in which blocks, and how often its caches were of use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ray_pubsub.engines.cache_use import CacheUse
from ray_pubsub.engines.cnf_segment import CnfSegment
from ray_pubsub.engines.contract import Engine, Segment
from ray_pubsub.engines.mixed_segment import MixedSegment
from ray_pubsub.engines.segments import KINDS
from ray_pubsub.engines.shared_segment import SharedSegment
from ray_pubsub.errors import counted
from ray_pubsub.index.live import LiveIndex
from ray_pubsub.kernels.hits import REMOVED

__all__ = ["BlockStats", "CacheStats", "IndexStats", "index_stats"]

NAMES: dict[Any, str] = {**{kind: name for name, kind in KINDS.items()}, CnfSegment: "cnf"}


@dataclass(frozen=True, slots=True)
class BlockStats:
    """One block."""

    engine: str
    """What it is built as; "cnf" are conjunctions of disjunctions, which have blocks of their own in every engine."""
    clauses: int
    """Those that are stored."""
    shared: int
    """Those that are equal to one of these, and not stored again."""
    bytes: int


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Of the blocks there are now, each since it was built."""

    steps: int
    """Steps of matching that a cached bit set could have shortened."""
    hits: int
    """Those that began at one."""

    @property
    def hit_rate(self) -> float | None:
        """None if there were no steps yet."""
        return self.hits / self.steps if self.steps else None


@dataclass(frozen=True, slots=True)
class IndexStats:
    """Plain data that pickles; `to_dict` is ready to be written as JSON. Print it to read it."""

    engine: str
    subscriptions: int
    clauses: int
    """All there are, in blocks and in the tail; those of removed subscriptions are among them until their block is merged."""
    blocks: tuple[BlockStats, ...]
    tail: int
    """Clauses that were added last and are not in a block yet."""
    removed: int
    """Subscriptions that were removed, and that the index still knows of."""
    bytes: int
    """As `MatchIndex.nbytes`: roughly."""
    cache: CacheStats | None
    """None if no block has a cache."""

    def blocks_by_engine(self) -> dict[str, int]:
        return dict(Counter(block.engine for block in self.blocks))

    def clauses_by_engine(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for block in self.blocks:
            found[block.engine] += block.clauses + block.shared
        return dict(found)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "blocks": [asdict(block) for block in self.blocks]}

    def __str__(self) -> str:
        lines = [
            f"{counted(self.subscriptions, 'subscription')}, {counted(self.clauses, 'clause')}, {_size(self.bytes)}, "
            f"engine {self.engine}",
            *(
                f"  {block.engine}: {counted(block.clauses, 'clause')}, {block.shared:,} more equal to them, {_size(block.bytes)}"
                for block in self.blocks
            ),
        ]
        if self.tail:
            lines.append(f"  tail: {counted(self.tail, 'clause')}")
        if self.removed:
            lines.append(f"  removed, not yet forgotten: {counted(self.removed, 'subscription')}")
        if self.cache is not None:
            lines.append(f"  cache: {self.cache.hits:,} of {self.cache.steps:,} steps began at a cached bit set")
        return "\n".join(lines)


def _size(count: int) -> str:
    return f"{count / 2**20:,.1f} MB" if count >= 2**20 else f"{count / 2**10:,.0f} kB"


def index_stats(name: str, subscriptions: int, engine: Engine, more_bytes: int) -> IndexStats:
    """`more_bytes`: what is held beside the engine."""
    held = engine.nbytes + more_bytes
    if not isinstance(engine, LiveIndex):
        whole = (BlockStats(name, subscriptions, 0, engine.nbytes),) if subscriptions else ()
        return IndexStats(name, subscriptions, subscriptions, whole, 0, 0, held, None)
    snapshot = engine.snapshot
    blocks = tuple(_stats_of(block, shared) for whole in snapshot.blocks for block, shared in _built(whole))
    tail = sum(len(tail) for tail in (*snapshot.sealed, snapshot.tail))
    clauses = sum(block.clauses + block.shared for block in blocks) + tail
    removed = int(np.count_nonzero(snapshot.flags & REMOVED)) if snapshot.filtered else 0
    uses = [use for whole in snapshot.blocks for block, _ in _built(whole) if (use := _use_of(block)) is not None]
    cache = CacheStats(sum(use.steps for use in uses), sum(use.hits for use in uses)) if uses else None
    return IndexStats(name, subscriptions, clauses, blocks, tail, removed, held, cache)


def _built(block: Segment, shared: int = 0) -> Iterator[tuple[Segment, int]]:
    """The segments that engines have built, out of what is around them; and how many clauses share theirs."""
    if isinstance(block, SharedSegment):
        yield from _built(block.inside, len(block) - len(block.inside))
    elif isinstance(block, MixedSegment):
        for number, part in enumerate(block.parts):  # which of them is shared is not told apart
            yield from _built(part, shared if number == 0 else 0)
    else:
        yield block, shared


def _stats_of(block: Segment, shared: int) -> BlockStats:
    return BlockStats(NAMES[type(block)], len(block), shared, block.nbytes)


def _use_of(block: Segment) -> CacheUse | None:
    found: CacheUse | None = getattr(block, "cache_use", None)
    return found
