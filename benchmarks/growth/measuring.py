"""What matching, memory and building cost at one size: by the processor's clock, matches compared with a plain reference."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import ray_pubsub
from benchmarks.figures.measuring import texts_of
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.workloads import Workload

__all__ = ["measure_index", "measure_updates"]

SINGLES, ROUNDS, CHECKED = 100, 5, 5


def measure_index(made: Workload, engine: str = "auto") -> dict[str, Any]:
    """Milliseconds an event in batches and alone, seconds to build, bytes, matches an event."""
    index, build = built(made, engine)
    dicts = made.event_dicts()
    batch = from_dicts(dicts)
    batch.cells()
    check(index, made, dicts)
    index.match_many(batch)
    rounds = [spent(index.match_many, batch) for _ in range(ROUNDS)]
    singles = [from_dicts([event]) for event in dicts[:SINGLES]]
    alone = [min(spent(index.match_many, one) for _ in range(3)) for one in singles]
    found = len(index.match_many(batch))
    return {
        "subscriptions": made.subscriptions,
        "batch_ms": min(rounds) / len(dicts),
        "batch_std_ms": float(np.std(rounds)) / len(dicts),
        "one_ms": float(np.mean(alone)),
        "one_std_ms": float(np.std(alone)),
        "build_s": build,
        "bytes": index.nbytes,
        "matches": found / len(dicts),
        "engines": " + ".join(sorted({block.engine for block in index.stats().blocks})) or "tail",
    }


def measure_updates(made: Workload, changes: int) -> dict[str, Any]:
    """Matching while subscriptions change: before every event this many are added and the same number removed. The index is right
    afterwards."""
    index, _ = built(made, "auto")
    dicts, texts = made.event_dicts(), texts_of(made, 200)
    next_id, oldest = made.subscriptions, made.subscriptions
    matching = changing = 0.0
    batches = [from_dicts([event]) for event in dicts[:SINGLES]]
    for batch in batches:
        index.match_many(batch)
    worst = 0.0
    for batch in batches:
        for _ in range(changes):
            took = spent(index.add, next_id, texts[next_id % len(texts)])
            worst, changing, next_id = max(worst, took), changing + took, next_id + 1
        while next_id - oldest > changes:
            took = spent(index.remove, oldest)
            worst, changing, oldest = max(worst, took), changing + took, oldest + 1
        matching += spent(index.match_many, batch)
    for number in range(oldest, next_id):
        index.remove(number)
    check(index, made, dicts)
    return {
        "subscriptions": made.subscriptions,
        "changes": changes,
        "one_ms": matching / len(batches),
        "change_ms": changing / max(1, 2 * changes * len(batches)),
        "worst_change_ms": worst,
    }


def built(made: Workload, engine: str) -> tuple[ray_pubsub.MatchIndex, float]:
    index, rows = ray_pubsub.MatchIndex(engine), made.predicates()
    start = time.process_time()
    index.add_predicates(rows)
    index.match({})
    return index, time.process_time() - start


def check(index: ray_pubsub.MatchIndex, made: Workload, dicts: list[dict[str, int]]) -> None:
    few = Workload(
        made.name, made.attributes, made.offsets, made.attribute, made.low, made.high, made.event_offsets[: CHECKED + 1],
        made.event_attribute, made.event_value,
    )  # fmt: skip
    found = index.match_many(dicts[:CHECKED])
    for event, right in enumerate(few.matches()):
        assert np.array_equal(np.sort(np.array(found[event], np.int64)), right), f"event {event} differs"


def spent(work: Any, *arguments: Any) -> float:
    """Milliseconds of this thread's processor."""
    start = time.thread_time()
    work(*arguments)
    return (time.thread_time() - start) * 1e3
