"""Generates rules and events of many kinds from a seed, to measure and test the choice of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.workloads.distributions import zipf_ranks
from ray_pubsub.workloads.rule_arrays import GeneratedRules, taken
from ray_pubsub.workloads.segments import BETWEEN, IN, NOT_IN

__all__ = ["Setting", "generate", "settings"]

T = TypeVar("T")

ALIKE, REDRAWN = 0.8, 0.1
"""The share of events that are like a profile, and the share of their values that are not the profile's."""
MOST_VALUES = 12_000_000
"""The most values that all sets of a setting may have."""
MOST_WITH_PATTERNS = 30_000
"""The most rules of a setting with patterns, which are added as texts."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Rules of one sort. Sets, negated sets, ranges and patterns are shares of the tests; the others are equalities."""

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
    patterns: float
    largest_set: int
    width: float
    """The longest range, as a share of the values."""
    matched: float = 0.0
    """If not 0: rules and events are made around profiles, so that values are correlated and about this share of the rules matches an
    event."""
    repeated: float = 0.0
    """The share of the rules that repeat others."""

    def of_size(self, rules: int) -> Setting:
        return replace(self, rules=rules)

    def __str__(self) -> str:
        parts = [
            f"{self.rules:,} rules", f"≤ {self.tests} tests, {self.carried} of {self.attributes} attributes", f"{self.values:,} values",
            f"skew {self.skew}" if self.skew else "", f"{self.sets:.0%} sets ≤ {self.largest_set}" if self.sets else "",
            f"{self.negated:.0%} not in" if self.negated else "", f"{self.ranges:.0%} ranges ≤ {self.width}" if self.ranges else "",
            f"{self.patterns:.0%} patterns" if self.patterns else "", f"profiles {self.matched:.1%}" if self.matched else "",
            f"{self.repeated:.0%} repeated" if self.repeated else "",
        ]  # fmt: skip
        return ", ".join(part for part in parts if part)


def generate(setting: Setting, events: int = 256) -> GeneratedRules:
    rng = np.random.default_rng(setting.seed)
    distinct = max(1, round(setting.rules * (1 - setting.repeated)))
    profiles = _Profiles(rng, setting) if setting.matched else None
    most = min(setting.tests, setting.attributes, setting.carried if profiles else setting.attributes)
    size = rng.integers(1, most + 1, distinct)
    # Distinct attributes within a rule: a start and steps around the circle.
    circle = setting.carried if profiles else setting.attributes
    start, step = rng.integers(0, circle, (2, distinct))
    step = 1 + step % max(1, circle // max(1, most))
    chosen = (start[:, None] + step[:, None] * np.arange(most)) % circle
    like = np.empty(0, np.int64)
    if profiles is not None:
        like = rng.integers(0, len(profiles.values), distinct)
        chosen = profiles.carried[like[:, None], chosen]
    attribute = chosen[np.arange(most) < size[:, None]].astype(np.int32)
    draw = rng.random(len(attribute))
    edges = np.cumsum([setting.ranges, setting.negated, setting.sets, setting.patterns])
    kind = np.where(draw < edges[0], BETWEEN, np.where(draw < edges[1], NOT_IN, IN)).astype(np.int8)
    several = (draw >= edges[0]) & (draw < edges[2])
    members = np.where(several, rng.integers(1, setting.largest_set + 1, len(attribute)), 1)
    members[kind == BETWEEN] = 2
    value_offsets = np.concatenate([[0], np.cumsum(members)])
    value = _values(rng, setting, int(value_offsets[-1]))
    of_ranges = np.flatnonzero(kind == BETWEEN)
    longest = max(2, int(setting.width * setting.values))
    length = rng.integers(1, longest, len(of_ranges))
    low = rng.integers(0, setting.values, len(of_ranges))
    if profiles is not None:
        owner = np.repeat(like, size)
        own = profiles.values[owner, attribute]
        low = np.maximum(0, own[of_ranges] - rng.integers(0, length + 1))
        value[value_offsets[:-1][kind == IN]] = own[kind == IN]
        excluded = np.repeat(kind == NOT_IN, members) & (value == np.repeat(own, members))
        value[excluded] = (value[excluded] + 1) % setting.values
    value[value_offsets[of_ranges]] = low
    value[value_offsets[of_ranges] + 1] = np.minimum(low + length, setting.values - 1)
    drawn = _values(rng, setting, events * setting.attributes).reshape(events, setting.attributes)
    if setting.carried < setting.attributes:
        drawn[np.argsort(rng.random(drawn.shape), axis=1) >= setting.carried] = -1
    if profiles is not None:
        profiles.put_into(rng, drawn)
    rules = GeneratedRules(np.concatenate([[0], np.cumsum(size)]), attribute, kind, value_offsets, value, drawn)
    if setting.patterns:
        rules = rules.with_patterns(setting.values, (draw >= edges[2]) & (draw < edges[3]), rng)
    if distinct < setting.rules:
        rules = taken(rules, np.append(np.arange(distinct), rng.integers(0, distinct, setting.rules - distinct)))
    return rules


class _Profiles:
    """What many events have in common, and what rules are written for."""

    def __init__(self, rng: np.random.Generator, setting: Setting) -> None:
        count = max(1, round(ALIKE / setting.matched))
        self.values = _values(rng, setting, count * setting.attributes).reshape(count, setting.attributes)
        self.carried = np.argsort(rng.random(self.values.shape), axis=1)[:, : setting.carried]

    def put_into(self, rng: np.random.Generator, drawn: NDArray[np.int32]) -> None:
        """Makes events like profiles; some of their values stay what they are."""
        for row in np.flatnonzero(rng.random(len(drawn)) < ALIKE).tolist():
            profile = int(rng.integers(0, len(self.values)))
            carried = self.carried[profile]
            values = np.full(drawn.shape[1], -1, np.int32)
            redrawn = (rng.random(len(carried)) < REDRAWN) & (drawn[row, carried] >= 0)
            values[carried] = np.where(redrawn, drawn[row, carried], self.values[profile, carried])
            drawn[row] = values


def _values(rng: np.random.Generator, setting: Setting, count: int) -> NDArray[np.int32]:
    return zipf_ranks(rng, setting.values, count, setting.skew).astype(np.int32)


def settings(count: int, largest: int, seed: int = 1) -> list[Setting]:
    """Returns settings in a Latin hypercube: each property takes its values evenly, in an order of its own. Sizes go from 1,000 to
    `largest` rules, evenly in their logarithm."""
    rng = np.random.default_rng(seed)

    def spread(options: Sequence[T]) -> list[T]:
        repeated = [options[number % len(options)] for number in range(count)]
        return [repeated[place] for place in rng.permutation(count).tolist()]

    sizes = 1000 * (largest / 1000) ** ((rng.permutation(count) + rng.random(count)) / max(1, count))
    columns = zip(
        sizes.astype(int).tolist(), spread([1, 2, 5, 10, 20, 60, 200, 1000]), spread([1, 2, 3, 4, 5, 6, 7, 8]), spread([True, False]),
        spread([3, 12, 100, 1000, 20_000]), spread([0.0, 0.8, 1.1]), spread([2, 8, 20, 200]), spread([0.05, 0.3, 0.9]),
        spread([0.0, 0.0, 0.001, 0.01, 0.1]), spread([0.0, 0.0, 0.0, 0.7]), spread([0.0, 0.0, 0.0, 0.0, 0.3]),
        rng.dirichlet([1.0, 1.0, 0.5, 1.0], count), spread([0, 1, 2, 3]), spread([0, 1, 2, 3]), strict=True,
    )  # fmt: skip
    found = []
    for number, column in enumerate(columns):
        rules, attributes, tests, wide, values, skew, largest_set, width, matched, repeated, patterns, mix, *without = (
            column
        )
        # Of equalities, sets, negated sets and ranges some settings lack one or two.
        mix[without] = 0.0
        mix *= (1 - patterns) / max(mix.sum(), 1e-9)
        if patterns:
            rules = min(rules, MOST_WITH_PATTERNS)
        sets = rules * min(attributes, tests) / 4 * (mix[1] + mix[2])
        found.append(
            Setting(
                seed=1000 * seed + number,
                rules=rules,
                attributes=attributes,
                tests=min(attributes, tests),
                carried=attributes if wide or attributes <= 10 else max(10, attributes // 10),
                values=values,
                skew=skew,
                sets=float(mix[1]),
                negated=float(mix[2]),
                ranges=float(mix[3]),
                patterns=patterns,
                largest_set=min(largest_set, max(2, int(MOST_VALUES / max(1.0, sets)))),
                width=width,
                matched=matched,
                repeated=repeated,
            )
        )
    return found
