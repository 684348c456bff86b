"""The compiled scan on W1: the unit by which rates of different machines are compared."""

from __future__ import annotations

import numpy as np

from benchmarks.baselines import ColumnarScan
from benchmarks.rules.report import Report, best_seconds
from benchmarks.rules.sizes import Sizes
from ray_pubsub.workloads import dense

EVENTS = 20


def run(report: Report, sizes: Sizes) -> None:
    workload = dense(sizes.subscriptions)
    scan = ColumnarScan(workload)
    values = workload.event_value.reshape(workload.events, workload.attributes)[:EVENTS]
    for row in values[:3]:
        holds = (scan.low <= row[:, None]) & (row[:, None] <= scan.high)
        assert np.array_equal(np.sort(scan.match(row)), np.flatnonzero(holds.all(axis=0)))
    seconds = best_seconds(lambda: [scan.match(row) for row in values], sizes.rounds)
    milliseconds = seconds * 1e3 / EVENTS
    at_a_million = milliseconds * 1_000_000 / sizes.subscriptions
    report.line(
        "compiled scan, W1", milliseconds, "ms an event", note=f"{at_a_million / 3.5:.2f} times the targets' machine"
    )
