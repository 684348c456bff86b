"""The priority paper's experiments: SI, the Bloom filters of rule instances, beside SF, which tries rule after rule."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import ray_pubsub
from benchmarks.figures.sweeps import Scale
from benchmarks.priorities import Scan
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.events import read_events
from ray_pubsub.workloads import LEVELS, RULE_ATTRIBUTES, PriorityRuleSet, priority_events, priority_rules

__all__ = ["PRIORITY", "measure_priority"]

PRIORITY = {
    "priority-size": "rules",
    "priority-size-zipf": "rules",
    "priority-rate": "share of events that match",
    "priority-rate-zipf": "share of events that match",
    "priority-false-positives": "stated rate of false positives",
}
SI, CONFIRMED, SF = "SI, filters", "SI, confirmed", "SF"
BATCH, ROUNDS = 10_000, 5
"""The events of the paper, in one batch."""


def points_of(name: str, scale: Scale) -> list[float]:
    if name.startswith("priority-size"):
        return [size * scale.million for size in (0.1, 0.25, 0.5, 1.0)]
    if name.startswith("priority-rate"):
        return [0.0, 0.25, 0.5, 0.75, 1.0]
    return [0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5]


def measure_priority(name: str, place: int, scale: Scale) -> list[dict[str, Any]]:
    x, rng = points_of(name, scale)[place], np.random.default_rng(1)
    size = int(x) if name.startswith("priority-size") else 10_000
    rules = priority_rules(size, rng)
    rate = x if name.startswith("priority-rate") else 0.3
    values = priority_events(rules, BATCH, rate, name.endswith("zipf"), rng)
    expected = rules.levels(values)
    target = x if name == "priority-false-positives" else 0.01
    shared = {"sweep": name, "place": place, "x": x, "status": "ok", "subscriptions": size, "events": BATCH}
    rows = []
    for series, confirm in ((SI, False), (CONFIRMED, True)):
        found = ray_pubsub.PriorityRules(LEVELS, confirm=confirm, false_positive_rate=target, cache=0)
        start = time.process_time()
        found.add_predicates(rules.table())
        build = time.process_time() - start
        batch = batch_of(values)
        levels = found.levels_of(batch).levels
        assert (levels >= expected).all(), "a false negative"
        too_high = int((levels > expected).sum())
        assert not confirm or too_high == 0, "a confirmed level is wrong"
        times = repeated(lambda batch=batch, found=found: found.levels_of(batch))  # type: ignore[misc]
        matched, found_matching = int((expected > 0).sum()), int((levels > 0).sum())
        counted = {
            "checked": BATCH,
            "false_positives": too_high,
            "matched": matched,
            "unmatched": BATCH - matched,
            "found": found_matching,
            "rate": (found_matching - matched) / max(1, BATCH - matched),
        }
        size_of = {"build_s": build, "bytes": sum(found.stats().bytes.values())}
        rows.append(shared | {"series": series} | times | counted | size_of)
    rows.append(shared | {"series": SF} | brute_force(rules, values, expected))
    return rows


def brute_force(rules: PriorityRuleSet, values: Any, expected: Any) -> dict[str, Any]:
    scan = Scan(rules)
    few = values[: max(16, min(512, 2_000_000 // rules.count))]
    assert np.array_equal(scan.levels(few), expected[: len(few)])
    return repeated(lambda: scan.levels(few), len(few)) | {"checked": len(few), "false_positives": 0}


def batch_of(values: Any) -> EventBatch:
    batch = read_events(
        pa.table({f"a{place}": np.ascontiguousarray(values[:, place]) for place in range(RULE_ATTRIBUTES)})
    )
    batch.cells()
    return batch


def repeated(work: Callable[[], object], events: int = BATCH) -> dict[str, Any]:
    """Milliseconds per event of a batch: mean and standard deviation over rounds."""
    times = []
    work()
    for _ in range(ROUNDS):
        start = time.thread_time()
        work()
        times.append((time.thread_time() - start) * 1e3 / events)
    return {"mean_ms": float(np.mean(times)), "std_ms": float(np.std(times))}
