"""What the priority rules are made of and what they did, in numbers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from ray_pubsub.priority.cache import SignatureCache
from ray_pubsub.priority.levels import Levels
from ray_pubsub.priority.upkeep import RuleKeeper

__all__ = ["statistics_of"]


def statistics_of(keeper: RuleKeeper, levels: Levels, cache: SignatureCache, counted: dict[str, int]) -> dict[str, Any]:
    """Plain numbers and texts, ready to be written as JSON."""
    book, instances = keeper.book, keeper.instances
    numbers = list(book.number_of.values())
    per_level = np.bincount(book.level_of[numbers], minlength=len(levels)).tolist()
    filters = instances.filters
    lookup = {level: filters.lookup_rate(level) for level in range(1, len(levels))}
    passes = 1.0
    for _, level in instances.cover.counts:
        passes *= 1 - lookup[level]
    asked = counted["asked"]
    return {
        "rules": len(numbers),
        "rules_per_level": dict(zip(levels.names, per_level, strict=True)),
        "exact_rules": len(keeper.exact),
        "exact_reasons": dict(Counter(keeper.exact.values())),
        "vectors": [
            {
                "attributes": list(vector.names),
                "bins": vector.shape.tolist(),
                "signatures": vector.cells,
                "discretizer": vector.discretizer_id,
                "boxes": len(instances.cover.boxes[number]),
                "covered": {
                    levels.names[level]: int(np.count_nonzero(instances.cover.counts[number, level]))
                    for level in range(1, len(levels))
                    if (number, level) in instances.cover.counts
                },
            }
            for number, vector in enumerate(instances.layout.vectors)
        ],
        "filters": {
            levels.names[level]: {
                "keys": int(filters.keys[level - 1]),
                "bits": int(filters.size[level - 1]),
                "probes": int(filters.probes[level - 1]),
                "fill": filters.fill(level),
                "rate": lookup[level],
                "saturated_counters": filters.saturated(level),
            }
            for level in range(1, len(levels))
        },
        "false_positive_rate": {"target": instances.rate, "expected_of_filters": 1 - passes},
        "lookups_per_event": len(instances.cover.counts),
        "rebuilds": keeper.rebuilds,
        "filters_grown": instances.grown,
        "epoch": keeper.snapshot.version,
        "events": counted["events"],
        "cache": {
            "entries": cache.entries,
            "lookups": cache.lookups,
            "hits": cache.hits,
            "hit_rate": cache.hits / cache.lookups if cache.lookups else 0.0,
            "bypassed": cache.bypassed,
        },
        "confirmation": {
            "enabled": keeper.confirm,
            "sure": counted["sure"],
            "asked": asked,
            "refuted": counted["refuted"],
            "refuted_rate": counted["refuted"] / asked if asked else 0.0,
        },
        "bytes": {"instances": instances.nbytes, "indexes": keeper.indexes.nbytes, "cache": cache.nbytes},
    }
