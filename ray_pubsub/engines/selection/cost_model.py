"""Chooses the engine of least estimated cost for a set of clauses, by the engines' formulas (engines/selection/cost_formulas.py).

An engine's cost is the geometric mean of its estimates for a single event and for an event of a batch. If nothing is known about events,
wide and narrow ones are both considered, and the choice is the engine whose worse case is the closest to the best engine. The library is
tuned for `dense` and `pivot`; any other engine must be better by MARGIN.

A plain scan is not considered: pivot lists do only a part of its work, and a tail is scanned anyway.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

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
from ray_pubsub.engines.selection.machine import MachineConstants

__all__ = ["MARGIN", "Choice", "CostModel"]

MARGIN = 1.3
"""Unknown properties of events easily make this much of a difference."""


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The chosen engine, and the estimates of every engine that could take the clauses."""

    engine: str
    estimates: tuple[dict[str, Estimate], ...]
    """For events as they are known, or one for wide and one for narrow events."""
    statistics: tuple[ClauseStatistics, ...]
    """In the same order as `estimates`."""

    @property
    def cost(self) -> float:
        """The geometric mean of all estimates of the chosen engine."""
        return math.exp(
            math.fsum(math.log(time) for each in self.estimates for time in each[self.engine])
            / (2 * len(self.estimates))
        )


class CostModel:
    """Compares the engines of a table on one machine."""

    def __init__(self, engines: Mapping[str, EngineEntry], constants: MachineConstants) -> None:
        self._engines = engines
        self.constants = constants

    def choose(self, table: ClauseTable, vocabulary: Vocabulary, frequency: Frequency = None) -> Choice:
        sample = ClauseSample(table, vocabulary)
        if frequency is not None:
            expected = [known_events(sample.tested, frequency)]
        else:
            expected = [wide_events(sample.tested), narrow_events(sample.tested)]
        statistics = tuple(sample.statistics(carried, known=frequency is not None) for carried in expected)
        found = [self.estimates(each) for each in statistics]
        regrets = [self._regrets(estimates) for estimates in found]
        engine = min(regrets[0], key=lambda name: max(regret[name] for regret in regrets))
        return Choice(engine, tuple(found), statistics)

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
