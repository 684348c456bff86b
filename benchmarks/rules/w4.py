"""W4 (ray_pubsub/workloads/segments.py): batches, one event, building, bytes; beside counting and a scan, both compiled."""

from __future__ import annotations

import time

import numpy as np

import ray_pubsub
from benchmarks.rules.references import Counting, Scan, rule_arrays
from benchmarks.rules.report import Report, best_seconds
from benchmarks.rules.sizes import Sizes
from ray_pubsub.model.arrow.arrow_events import from_arrow
from ray_pubsub.workloads import segments

REFERENCED, SINGLE = 24, 100
"""Events by which the references and single events are timed."""
STREAM = 1.5
"""Seconds of single events before those that are timed, in which the index makes what pays for a stream of them."""


def run(report: Report, sizes: Sizes) -> None:
    report.step("W4: making the segments")
    workload = segments(sizes.subscriptions)
    arrays = rule_arrays(workload)
    counting, scan = Counting(arrays, workload.events.shape[1]), Scan(arrays)
    values = [np.ascontiguousarray(row) for row in workload.events]
    for event in values[:5]:
        assert np.array_equal(np.sort(counting.match(event)), np.sort(scan.match(event)))
    counted = best_seconds(lambda: [counting.match(row) for row in values[:REFERENCED]], 3) * 1e3 / REFERENCED
    scanned = best_seconds(lambda: [scan.match(row) for row in values[: REFERENCED // 4]], 2) * 1e3 / (REFERENCED // 4)

    report.step("W4: building from columns")
    index = ray_pubsub.MatchIndex()
    predicates = workload.predicates()
    start = time.thread_time()
    index.add_predicates(predicates)
    built = time.thread_time() - start
    events = workload.event_table(numbered=True)
    found = index.match_many(events)
    expected = [np.sort(counting.match(row)) for row in values]
    for number, ids in enumerate(expected):
        assert np.array_equal(np.sort(np.array(found[number], dtype=np.int64)), ids), f"event {number} differs"
    if workload.subscriptions == 1_000_000:
        assert sum(len(ids) for ids in expected[:200]) == workload.matches_of_a_million

    report.step("W4: matching")
    batch = from_arrow(events)
    whole = best_seconds(lambda: index.match_many(batch), sizes.rounds) * 1e3 / len(values)
    singles = [from_arrow(events.slice(row, 1)) for row in range(SINGLE)]
    for number, one in enumerate(singles[:20]):
        assert np.array_equal(np.sort(np.array(index.match_many(one)[0], dtype=np.int64)), expected[number])
    begun = time.thread_time()
    while time.thread_time() - begun < STREAM:
        for one in singles:
            index.match_many(one)
    index.wait_for_merges()
    alone = best_seconds(lambda: [index.match_many(one) for one in singles], sizes.rounds) * 1e3 / SINGLE
    engines = ", ".join(sorted({block.engine for block in index.stats().blocks}))
    beside = f"{engines}; counting {counted:.2f} ms, scan {scanned:.2f} ms an event"
    report.line("batch, counting ÷ auto", counted / whole, "times", must=10, aim=40, note=f"{whole:.3f} ms; {beside}")
    report.line("one event, counting ÷ auto", counted / alone, "times", must=6, aim=20, note=f"{alone:.3f} ms")
    million = 1_000_000 / sizes.subscriptions
    report.line("build from columns, a million", built * million, "s", must=8, aim=4, more=False)
    size = index.nbytes / workload.subscriptions
    report.line("bytes a subscription", size, "bytes", must=500, aim=250, more=False)
    del index

    report.step("W4: building from texts")
    texts = list(workload.texts(sizes.texts))
    index = ray_pubsub.MatchIndex()
    start = time.thread_time()
    index.add_many(range(len(texts)), texts)
    rate = len(texts) / (time.thread_time() - start)
    for number in range(10):
        ours, theirs = np.sort(np.array(index.match(workload.event(number)), dtype=np.int64)), expected[number]
        assert np.array_equal(ours, theirs[theirs < len(texts)]), f"event {number} differs"
    report.line("build from texts", rate, "a second", must=50_000, aim=150_000, note=f"{len(texts):,} texts")
