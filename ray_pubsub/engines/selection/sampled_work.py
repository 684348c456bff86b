"""Statistics of clauses for a sample of events, by counting (kernels/sampled_work.py)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ray_pubsub.engines.pivot.lists import coded_rows
from ray_pubsub.engines.selection.clause_statistics import THICK, ClauseSample, ClauseStatistics, Floats
from ray_pubsub.engines.selection.event_sample import SampledEvents
from ray_pubsub.kernels.sampled_work import NEVER, EventCodes, Plan, count_work

__all__ = ["counted_statistics"]

SURE = 32
"""The number of pairs of a clause and an event from which a share is believed as it was counted."""


def counted_statistics(
    sample: ClauseSample, given: ClauseStatistics, events: SampledEvents, presence: Floats | None
) -> ClauseStatistics:
    """`given`: the statistics for independent attributes; `presence`: as for `ClauseSample.pivots`."""
    coded, shares = sample.coded, sample.values
    if not len(coded.offsets) > 1 or not len(events.code):
        return given
    choice = sample.pivots(presence)
    thick = np.flatnonzero(sample.shares * THICK >= 1)
    rank = np.full(coded.space.columns, NEVER)
    rank[thick[np.argsort(given.passing[thick])]] = np.arange(len(thick))
    failed, fallen = np.zeros(coded.space.columns, np.int64), np.zeros(len(thick), np.int64)
    plan = Plan(
        choice.pivot,
        sample.weights.way,
        choice.second,
        choice.third,
        choice.proven,
        sample.lead,
        sample.two_sided,
        rank,
    )
    codes = EventCodes(np.ascontiguousarray(events.code), events.origin, shares.base, shares.bucket)
    pairs, *counts = count_work(tuple(coded_rows(coded)), tuple(codes), tuple(plan), failed, fallen)
    matched, survivors, holed, between, met, checked, led, predicates = counts
    if not pairs:
        return given

    def share(count: int, otherwise: float) -> float:
        trust = min(1.0, count / SURE)
        return float(trust * count / pairs + (1 - trust) * min(otherwise, SURE / pairs))

    return replace(
        given,
        passing=1 - failed / pairs,
        left=1 - np.concatenate([[0.0], np.cumsum(fallen) / pairs]),
        run=share(met, given.run),
        checked=share(checked, given.checked),
        led=share(led, given.led),
        counted=share(predicates, given.counted),
        matched=share(matched, given.matched),
        survivors=share(survivors, given.survivors),
        holed=share(holed, given.holed),
        between=share(between, given.between),
    )
