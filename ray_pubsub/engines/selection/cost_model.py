"""Which engine a set of clauses gets: the one of least estimated cost, by the formulas of the engines (engines/selection/cost_formulas.py).

An engine's cost is the geometric mean of its estimates for a single event and for an event of a batch. If nothing is known of events, wide
and narrow ones are both considered, and the choice is the engine that is, where it is worse, the least behind the best. `dense` and `pivot`
are what the library is tuned for; any other engine must be better by MARGIN.

There is no plain scan among them: pivot lists do a part of its work, and below some thousands of clauses nothing is chosen.
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
"""What is not known of events easily makes this much of a difference."""


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The engine, and what was expected of every engine that could take the clauses."""

    engine: str
    estimates: tuple[dict[str, Estimate], ...]
    """For events as they are known, or for wide and for narrow ones."""
    statistics: tuple[ClauseStatistics, ...]
    """The same."""

    @property
    def cost(self) -> float:
        """Of the chosen engine, the geometric mean of all its estimates."""
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
        """Of every engine that can take the clauses."""
        found = {}
        for name, entry in self._engines.items():
            estimate = None if entry.cost is None else entry.cost(statistics, self.constants)
            if estimate is not None:
                found[name] = estimate
        return found

    def _regrets(self, estimates: dict[str, Estimate]) -> dict[str, float]:
        """How many times as long as the best each engine takes."""
        weights = {
            name: math.sqrt(estimate.alone * estimate.in_batch) * (1.0 if self._engines[name].favoured else MARGIN)
            for name, estimate in estimates.items()
        }
        least = min(weights.values())
        return {name: weight / least for name, weight in weights.items()}
