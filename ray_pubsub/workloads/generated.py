"""Generates rules and events of many kinds from a seed, to measure and test the choice of an engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.workloads.distributions import zipf_ranks
from ray_pubsub.workloads.segments import BETWEEN, IN, NOT_IN, predicate_table

__all__ = ["GeneratedRules", "Setting", "generate", "settings"]


@dataclass(frozen=True, slots=True)
class Setting:
    """Rules of one sort. Sets, negated sets and ranges are shares of the tests; the others are equalities."""

    seed: int
    rules: int
    attributes: int
    tests: int
    """The most tests of a rule."""
    carried: int
    """Attributes an event has."""
    values: int
    """The number of values of each attribute."""
    skew: float
    """Zipf's exponent; 0 means that all values are equally likely."""
    sets: float
    negated: float
    ranges: float
    largest_set: int
    width: float
    """The longest range, as a share of the values."""

    def __str__(self) -> str:
        parts = [
            f"{self.rules:,} rules", f"{self.tests} of {self.attributes} attributes", f"{self.values:,} values",
            f"skew {self.skew}" if self.skew else "", f"{self.sets:.0%} sets to {self.largest_set}" if self.sets else "",
            f"{self.negated:.0%} not in" if self.negated else "", f"{self.ranges:.0%} ranges to {self.width}" if self.ranges else "",
        ]  # fmt: skip
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class GeneratedRules:
    """The arrays are those of `Segments`; an event's value is -1 where it has no such attribute."""

    offsets: NDArray[np.int64]
    attribute: NDArray[np.int32]
    kind: NDArray[np.int8]
    value_offsets: NDArray[np.int64]
    value: NDArray[np.int32]
    events: NDArray[np.int32]

    @property
    def names(self) -> list[str]:
        return [f"a{number}" for number in range(self.events.shape[1])]

    def predicates(self) -> Any:
        return predicate_table(self, self.names)

    def event_dicts(self) -> list[dict[str, int]]:
        names = self.names
        return [{names[place]: int(row[place]) for place in np.flatnonzero(row >= 0).tolist()} for row in self.events]


def generate(setting: Setting, events: int = 256) -> GeneratedRules:
    rng = np.random.default_rng(setting.seed)
    most = min(setting.tests, setting.attributes)
    size = rng.integers(1, most + 1, setting.rules)
    # Distinct attributes within a rule: a start and steps around the circle.
    start, step = rng.integers(0, setting.attributes, (2, setting.rules))
    step = 1 + step % max(1, setting.attributes // max(1, most))
    chosen = (start[:, None] + step[:, None] * np.arange(most)) % setting.attributes
    attribute = chosen[np.arange(most) < size[:, None]].astype(np.int32)
    draw = rng.random(len(attribute))
    edges = np.cumsum([setting.ranges, setting.negated, setting.sets])
    kind = np.where(draw < edges[0], BETWEEN, np.where(draw < edges[1], NOT_IN, IN)).astype(np.int8)
    several = (draw >= edges[0]) & (draw < edges[2])
    members = np.where(several, rng.integers(1, setting.largest_set + 1, len(attribute)), 1)
    members[kind == BETWEEN] = 2
    value_offsets = np.concatenate([[0], np.cumsum(members)])
    value = _values(rng, setting, int(value_offsets[-1]))
    of_ranges = np.flatnonzero(kind == BETWEEN)
    low = rng.integers(0, setting.values, len(of_ranges))
    value[value_offsets[of_ranges]] = low
    longest = max(2, int(setting.width * setting.values))
    value[value_offsets[of_ranges] + 1] = np.minimum(low + rng.integers(1, longest, len(of_ranges)), setting.values - 1)
    drawn = _values(rng, setting, events * setting.attributes).reshape(events, setting.attributes)
    if setting.carried < setting.attributes:
        drawn[np.argsort(rng.random(drawn.shape), axis=1) >= setting.carried] = -1
    return GeneratedRules(np.concatenate([[0], np.cumsum(size)]), attribute, kind, value_offsets, value, drawn)


def _values(rng: np.random.Generator, setting: Setting, count: int) -> NDArray[np.int32]:
    return zipf_ranks(rng, setting.values, count, setting.skew).astype(np.int32)


def settings(count: int, largest: int, seed: int = 1) -> list[Setting]:
    """Returns settings drawn at random, with sizes from 1,000 to `largest` rules, evenly distributed in their logarithm."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        attributes = int(rng.choice([1, 2, 5, 10, 20, 60, 200, 1000]))
        mix = rng.dirichlet([1.0, 1.0, 0.5, 1.0])
        mix[rng.random(4) < 0.35] = 0.0
        mix /= max(mix.sum(), 1e-9)
        found.append(
            Setting(
                seed=number,
                rules=int(1000 * (largest / 1000) ** rng.random()),
                attributes=attributes,
                tests=min(attributes, int(rng.integers(1, 9))),
                carried=attributes if attributes <= 10 else int(rng.choice([attributes, max(10, attributes // 10)])),
                values=int(rng.choice([3, 12, 100, 1000, 20_000])),
                skew=float(rng.choice([0.0, 0.8, 1.1])),
                sets=float(mix[1]),
                negated=float(mix[2]),
                ranges=float(mix[3]),
                largest_set=int(rng.choice([2, 8, 20, 200])),
                width=float(rng.choice([0.05, 0.3, 0.9])),
            )
        )
    return found
