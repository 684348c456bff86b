"""Statistics of priority rules: what they consist of, and what they did."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ray_pubsub.errors import counted
from ray_pubsub.priority.cache import SignatureCache
from ray_pubsub.priority.levels import Levels
from ray_pubsub.priority.rule_maintenance import RuleKeeper

__all__ = ["ConfirmationStats", "FilterStats", "PriorityStats", "SignatureCacheStats", "VectorStats", "statistics_of"]


SHOWN = 8
"""Sets of attributes that the text of statistics names; `vectors` has all."""


@dataclass(frozen=True, slots=True)
class VectorStats:
    """The rules of one set of attributes, whose combinations of bins are signatures."""

    attributes: tuple[str, ...]
    bins: tuple[int, ...]
    """The number of bins of each attribute."""
    signatures: int
    discretizer: str
    boxes: int
    """Boxes of signatures that rules cover."""
    covered: dict[str, int]
    """By level, the signatures that a rule covers."""


@dataclass(frozen=True, slots=True)
class FilterStats:
    """The Bloom filter of one level."""

    keys: int
    bits: int
    probes: int
    fill: float
    rate: float
    """Expected false positives of one lookup."""
    saturated_counters: int


@dataclass(frozen=True, slots=True)
class SignatureCacheStats:
    """Answers remembered by signature."""

    entries: int
    lookups: int
    hits: int
    bypassed: int

    @property
    def hit_rate(self) -> float:
        return self.hits / self.lookups if self.lookups else 0.0


@dataclass(frozen=True, slots=True)
class ConfirmationStats:
    """How often a level was certain, and how often a match index was searched and refuted the filters."""

    enabled: bool
    sure: int
    asked: int
    refuted: int

    @property
    def refuted_rate(self) -> float:
        return self.refuted / self.asked if self.asked else 0.0


@dataclass(frozen=True, slots=True)
class PriorityStats:
    """What `PriorityRules.stats()` returns. `to_dict()` is ready to be written as JSON; print it to read it."""

    rules: int
    rules_per_level: dict[str, int]
    exact_rules: int
    """Rules that no filter can hold, which are matched one by one."""
    exact_reasons: dict[str, int]
    """The number of them for each reason."""
    vectors: tuple[VectorStats, ...]
    filters: dict[str, FilterStats]
    """By level."""
    target_rate: float
    """The requested rate of false positives of all filters together."""
    expected_rate: float
    """The expected rate of false positives of the filters in their current state."""
    lookups_per_event: int
    rebuilds: int
    filters_grown: int
    epoch: int
    """Raised by every change."""
    events: int
    cache: SignatureCacheStats
    confirmation: ConfirmationStats
    bytes: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Returns dictionaries, lists, strings and numbers."""
        found = asdict(self)
        found["cache"]["hit_rate"] = self.cache.hit_rate
        found["confirmation"]["refuted_rate"] = self.confirmation.refuted_rate
        return found

    def __str__(self) -> str:
        levels = ", ".join(f"{level} {count:,}" for level, count in self.rules_per_level.items())
        lines = [
            f"{counted(self.rules, 'rule')} ({levels}), {sum(self.bytes.values()) / 2**20:,.1f} MB; "
            f"{self.exact_rules:,} of them matched one by one",
            *(f"  {reason}: {counted(count, 'rule')}" for reason, count in self.exact_reasons.items()),
            *(
                f"  {', '.join(vector.attributes) or 'no attributes'}: {vector.signatures:,} signatures, bins {list(vector.bins)}"
                for vector in self.vectors[:SHOWN]
            ),
            *([f"  … and {len(self.vectors) - SHOWN:,} more sets of attributes"] if len(self.vectors) > SHOWN else []),
            *(
                f"  filter {level}: {counted(each.keys, 'key')}, {each.bits:,} bits, {each.fill:.0%} full, "
                f"false positives {each.rate:.2%}"
                for level, each in self.filters.items()
            ),
            f"  {counted(self.events, 'event')}: {self.cache.hits:,} of {self.cache.lookups:,} signatures found in the cache, "
            f"{self.confirmation.asked:,} confirmed by a match index, {self.confirmation.refuted:,} refuted",
        ]
        return "\n".join(lines)


def statistics_of(keeper: RuleKeeper, levels: Levels, cache: SignatureCache, done: dict[str, int]) -> PriorityStats:
    """`done`: the number of events, and how often levels were certain, searched and refuted."""
    book, instances = keeper.book, keeper.instances
    numbers = list(book.number_of.values())
    per_level = np.bincount(book.level_of[numbers], minlength=len(levels)).tolist()
    filters, cover = instances.filters, instances.cover
    lookup = {level: filters.lookup_rate(level) for level in range(1, len(levels))}
    passes = 1.0
    for _, level in cover.counts:
        passes *= 1 - lookup[level]
    return PriorityStats(
        rules=len(numbers),
        rules_per_level=dict(zip(levels.names, per_level, strict=True)),
        exact_rules=len(keeper.exact),
        exact_reasons=dict(Counter(keeper.exact.values())),
        vectors=tuple(
            VectorStats(
                tuple(vector.names),
                tuple(vector.shape.tolist()),
                vector.cells,
                vector.discretizer_id,
                len(cover.boxes[number]),
                {
                    levels.names[level]: int(np.count_nonzero(cover.counts[number, level]))
                    for level in range(1, len(levels))
                    if (number, level) in cover.counts
                },
            )
            for number, vector in enumerate(instances.layout.vectors)
        ),
        filters={
            levels.names[level]: FilterStats(
                int(filters.keys[level - 1]),
                int(filters.size[level - 1]),
                int(filters.probes[level - 1]),
                filters.fill(level),
                lookup[level],
                filters.saturated(level),
            )
            for level in range(1, len(levels))
        },
        target_rate=instances.rate,
        expected_rate=1 - passes,
        lookups_per_event=len(cover.counts),
        rebuilds=keeper.rebuilds,
        filters_grown=instances.grown,
        epoch=keeper.snapshot.version,
        events=done["events"],
        cache=SignatureCacheStats(cache.entries, cache.lookups, cache.hits, cache.bypassed),
        confirmation=ConfirmationStats(keeper.confirm, done["sure"], done["asked"], done["refuted"]),
        bytes={"instances": instances.nbytes, "indexes": keeper.indexes.nbytes, "cache": cache.nbytes},
    )
