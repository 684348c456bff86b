"""The priority paper's rule sets (its section 5.1): boxes over a grid, each with a level, and events that match at a stated rate.

Rules and events lie on a grid of 20 steps per attribute, as in the paper's experiment on false positives, so that discretizing causes
none of them. The paper gives no more than "randomly by selecting values from given value ranges"; the ranges here are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEVELS", "RULE_ATTRIBUTES", "RULE_STEPS", "PriorityRuleSet", "priority_events", "priority_rules"]

LEVELS = ["low", "normal", "high", "critical"]
RULE_ATTRIBUTES, RULE_STEPS = 5, 20


@dataclass(slots=True)
class PriorityRuleSet:
    """Rule i covers the steps low[i] … high[i] - 1 of every attribute."""

    level: NDArray[np.int32]
    low: NDArray[np.int32]
    high: NDArray[np.int32]
    grid: NDArray[np.uint8]
    """Cell → the highest level that covers it."""

    @property
    def count(self) -> int:
        return len(self.level)

    def table(self) -> Any:
        """Returns a table for `PriorityRules.add_predicates`."""
        import pyarrow as pa

        names = pa.array([f"a{number}" for number in range(RULE_ATTRIBUTES)])
        every = np.tile(np.arange(RULE_ATTRIBUTES, dtype=np.int32), self.count)
        return pa.table(
            {
                "id": np.repeat(np.arange(self.count), RULE_ATTRIBUTES),
                "level": pa.DictionaryArray.from_arrays(np.repeat(self.level, RULE_ATTRIBUTES), pa.array(LEVELS)),
                "attribute": pa.DictionaryArray.from_arrays(every, names),
                "low": self.low.ravel().astype(np.float64),
                "high": self.high.ravel().astype(np.float64),
                "high_closed": np.zeros(self.count * RULE_ATTRIBUTES, dtype=bool),
            }
        )

    def levels(self, values: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Returns the exact level of each event."""
        found: NDArray[np.uint8] = self.grid[tuple(values.astype(int).T)]
        return found


def priority_rules(count: int, rng: np.random.Generator) -> PriorityRuleSet:
    """Generates mostly single cells, with one side in five two steps wide: a million of them leave room for events that match nothing."""
    low = rng.integers(0, RULE_STEPS - 1, (count, RULE_ATTRIBUTES)).astype(np.int32)
    high = (low + 1 + (rng.random((count, RULE_ATTRIBUTES)) < 0.2)).astype(np.int32)
    level = rng.integers(1, len(LEVELS), count).astype(np.int32)
    grid = np.zeros((RULE_STEPS,) * RULE_ATTRIBUTES, dtype=np.uint8)
    for corner in range(1 << RULE_ATTRIBUTES):
        step = np.array([(corner >> axis) & 1 for axis in range(RULE_ATTRIBUTES)])
        inside = (low + step < high).all(axis=1)
        np.maximum.at(grid, tuple((low[inside] + step).T), level[inside].astype(np.uint8))
    return PriorityRuleSet(level, low, high, grid)


def priority_events(
    rules: PriorityRuleSet, count: int, rate: float, zipf: bool, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Returns values of events, multiples of 1/1024, so that 32-bit floats hold them exactly. At this rate an event is drawn inside a
    rule (chosen uniformly, or by Zipf's law), else outside all of them."""
    weights = 1 / np.arange(1, RULE_STEPS + 1) if zipf else np.ones(RULE_STEPS)
    order = rng.permutation(RULE_STEPS)
    matching = rng.random(count) < rate
    chosen = rng.zipf(1.2, count) % rules.count if zipf else rng.integers(0, rules.count, count)
    steps = rng.integers(rules.low[chosen], rules.high[chosen])
    left = np.flatnonzero(~matching)
    while len(left):
        steps[left] = order[rng.choice(RULE_STEPS, (len(left), RULE_ATTRIBUTES), p=weights / weights.sum())]
        left = left[rules.grid[tuple(steps[left].T)] > 0]
    values: NDArray[np.float64] = steps + rng.integers(0, 1024, steps.shape) / 1024
    return values
