"""Chooses the engine of least estimated cost for a set of clauses, by the engines' formulas (engines/selection/cost_formulas.py).

An engine's cost is the geometric mean of its estimates for a single event and for an event of a batch. It is estimated for events of the
stream, if some are at hand. If not, several kinds are considered: wide and narrow ones with values that are independent of each other,
events like those that the clauses were written for, and events below their limits; the choice is the engine whose worst case is the
closest to the best engine. The library is tuned for `dense` and `pivot`; any other engine must be better by MARGIN.

A plain scan is not considered: pivot lists do only a part of its work, and a tail is scanned anyway.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Frequency
from ray_pubsub.engines.engine_entry import EngineEntry, Estimate
from ray_pubsub.engines.selection.clause_statistics import (
    ClauseSample,
    ClauseStatistics,
    known_events,
    narrow_events,
    wide_events,
)
from ray_pubsub.engines.selection.event_sample import events_alike, events_quiet, events_seen
from ray_pubsub.engines.selection.machine import MachineConstants
from ray_pubsub.engines.selection.sampled_work import counted_statistics
from ray_pubsub.kernels.readiness import are_ready
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["MARGIN", "Choice", "CostModel"]

MARGIN = 1.6
"""By this much estimates of engines are easily wrong: those of the papers' depend on more than is known of events."""


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The chosen engine, and the estimates of every engine that could take the clauses."""

    engine: str
    estimates: tuple[dict[str, Estimate], ...]
    """For each kind of events that is to be expected."""
    statistics: tuple[ClauseStatistics, ...]
    """In the same order as `estimates`."""
    prepared: bool
    """Whether the engine's segment is worth preparing, for every kind of events."""

    @property
    def cost(self) -> float:
        return self.cost_of(self.engine)

    def cost_of(self, engine: str) -> float:
        """Returns the geometric mean of all estimates of an engine."""
        return math.exp(
            math.fsum(math.log(time) for each in self.estimates for time in each[engine]) / (2 * len(self.estimates))
        )


class CostModel:
    """Compares the engines of a table on one machine."""

    def __init__(self, engines: Mapping[str, EngineEntry], constants: MachineConstants) -> None:
        self._engines = engines
        self.constants = constants

    def choose(
        self, table: ClauseTable, vocabulary: Vocabulary, frequency: Frequency = None, events: EventBatch | None = None, *,
        whole: int | None = None,
    ) -> Choice:  # fmt: skip
        """`events`: some of the stream's; `whole`: the number of clauses of which those of the table are an even sample."""
        sample = ClauseSample(table, vocabulary, whole)
        statistics = tuple(_expected(sample, vocabulary, frequency, events))
        found = [self.estimates(each) for each in statistics]
        regrets = [self._regrets(estimates) for estimates in found]
        engine = min(regrets[0], key=lambda name: max(regret[name] for regret in regrets))
        prepared = self._engines[engine].prepared
        return Choice(
            engine, tuple(found), statistics,
            prepared is not None and all(prepared(each, self.constants) for each in statistics),
        )  # fmt: skip

    def estimates(self, statistics: ClauseStatistics) -> dict[str, Estimate]:
        """Returns the estimates of every engine that can take the clauses."""
        found = {}
        for name, entry in self._engines.items():
            estimate = None if entry.cost is None else entry.cost(statistics, self.constants)
            if estimate is not None:
                found[name] = estimate
        return found

    def _regrets(self, estimates: dict[str, Estimate]) -> dict[str, float]:
        """Returns how many times as long as the best each engine takes."""
        weights = {
            name: math.sqrt(estimate.alone * estimate.in_batch) * (1.0 if self._engines[name].favoured else MARGIN)
            for name, estimate in estimates.items()
        }
        least = min(weights.values())
        return {name: weight / least for name, weight in weights.items()}


def _expected(
    sample: ClauseSample, vocabulary: Vocabulary, frequency: Frequency, events: EventBatch | None
) -> Iterator[ClauseStatistics]:
    """Yields the statistics for each kind of events that is to be expected."""
    if frequency is None:
        yield sample.statistics(wide_events(sample.tested))
        narrow = narrow_events(sample.tested)
        given = sample.statistics(narrow)
        yield given
        yield from _made_up(sample, given, narrow, None)
        return
    carried = known_events(sample.tested, frequency)
    given, presence = sample.statistics(carried, known=True), carried[sample.attribute]
    if events is not None and are_ready():
        yield counted_statistics(sample, given, events_seen(sample, events, vocabulary), presence)
        return
    yield given
    yield from _made_up(sample, given, carried, presence)


def _made_up(
    sample: ClauseSample, given: ClauseStatistics, carried: NDArray[np.float64], presence: NDArray[np.float64] | None
) -> Iterator[ClauseStatistics]:
    if not are_ready():  # the kernel that counts would have to be compiled first
        return
    alike = events_alike(sample, carried)
    yield counted_statistics(sample, given, alike, presence)
    quiet = events_quiet(sample, alike)
    if quiet is not None:
        yield counted_statistics(sample, given, quiet, presence)
