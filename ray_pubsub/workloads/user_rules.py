"""Rules as users of different trades write them, each kind with the events that it is made for: classes on which the choice of an engine is
measured and tested. Values are numbered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.workloads.distributions import zipf_ranks
from ray_pubsub.workloads.rule_arrays import GeneratedRules, RuleWriter, taken

__all__ = ["CLASSES", "user_rules"]

Random = np.random.Generator
WIDE = 1_000_000
"""The values of an attribute that is measured: a coordinate, a time, a metric."""


def user_rules(name: str, rules: int, *, events: int = 256, seed: int = 1) -> GeneratedRules:
    """Returns rules and events of a class."""
    return CLASSES[name](np.random.default_rng(seed), rules, events)


def _wish_lists(rng: Random, count: int, events: int) -> GeneratedRules:
    """A model, the most that it may cost, sometimes its condition and colours."""
    made, every = RuleWriter(count), np.arange(count)
    model = zipf_ranks(rng, 5000, count, 0.9)
    made.sets(0, every, model)
    price = 100 + model * 7919 % 900
    made.ranges(1, every, np.zeros(count, int), (price * rng.uniform(0.6, 1.1, count)).astype(int))
    some = np.flatnonzero(rng.random(count) < 0.4)
    made.sets(2, some, rng.integers(0, 4, len(some)))
    some, sizes = _some_sets(rng, count, 0.3, 4)
    made.sets(3, some, zipf_ranks(rng, 12, int(sizes.sum()), 0.8), sizes)
    offered = zipf_ranks(rng, 5000, events, 0.9)
    cost = ((100 + offered * 7919 % 900) * rng.uniform(0.5, 1.5, events)).astype(int)
    return made.written(np.stack([offered, cost, rng.integers(0, 4, events), zipf_ranks(rng, 12, events, 0.8)], axis=1))


def _ad_segments(rng: Random, count: int, events: int) -> GeneratedRules:
    """Fifty of a thousand categories, a few countries, devices, ages, some brands excluded."""
    made, every = RuleWriter(count), np.arange(count)
    sizes = rng.integers(30, 71, count)
    made.sets(0, every, zipf_ranks(rng, 1000, int(sizes.sum()), 0.5), sizes)
    for place, share, most, values in ((1, 0.8, 5, 200), (2, 0.5, 3, 40)):
        some, sizes = _some_sets(rng, count, share, most)
        made.sets(place, some, zipf_ranks(rng, values, int(sizes.sum()), 1.0), sizes)
    some = np.flatnonzero(rng.random(count) < 0.6)
    low = rng.integers(13, 80, len(some))
    made.ranges(3, some, low, low + rng.integers(5, 30, len(some)))
    some, sizes = _some_sets(rng, count, 0.3, 10)
    made.sets(4, some, zipf_ranks(rng, 500, int(sizes.sum()), 0.8), sizes, negated=True)
    drawn = [(1000, 0.5), (200, 1.0), (40, 1.0), (100, 0.0), (500, 0.8)]
    return made.written(np.stack([zipf_ranks(rng, *each[:1], events, each[1]) for each in drawn], axis=1))


def _geo_boxes(rng: Random, count: int, events: int) -> GeneratedRules:
    """Boxes of latitude and longitude, most of them around a hundred cities, as events are; some for one kind of vehicle."""
    made, every = RuleWriter(count), np.arange(count)
    cities = rng.integers(0, WIDE, (100, 2))

    def places(number: int) -> NDArray[Any]:
        near = cities[zipf_ranks(rng, 100, number, 1.0)] + rng.normal(0, 8000, (number, 2))
        anywhere = rng.integers(0, WIDE, (number, 2))
        return np.clip(np.where(rng.random((number, 1)) < 0.9, near, anywhere), 0, WIDE - 1).astype(int)

    centre, half = places(count), (10 ** rng.uniform(2.3, 4.3, (count, 2))).astype(int)
    for axis in (0, 1):
        low = np.maximum(0, centre[:, axis] - half[:, axis])
        made.ranges(axis, every, low, centre[:, axis] + half[:, axis])
    some = np.flatnonzero(rng.random(count) < 0.3)
    made.sets(2, some, rng.integers(0, 8, len(some)))
    return made.written(np.column_stack([places(events), rng.integers(0, 8, events)]))


def _correlated_metrics(rng: Random, count: int, events: int) -> GeneratedRules:
    """Ranges of ten metrics that rise and fall together: what one admits, all do."""
    made, every = RuleWriter(count), np.arange(count)
    slope = rng.uniform(0.7, 1.3, 10)

    def metrics(load: NDArray[Any], noise: float) -> NDArray[Any]:
        values = load[:, None] * slope + rng.normal(0, noise, (len(load), 10))
        return np.clip(values * WIDE / 2, 0, WIDE - 1).astype(int)

    centre, half = metrics(rng.random(count), 0.01), rng.uniform(0.005, 0.05, (count, 10)) * WIDE
    tested = rng.random((count, 10)) < 0.7
    tested[:, 0] = True
    for place in range(10):
        some = every[tested[:, place]]
        low = np.maximum(0, centre[some, place] - half[some, place].astype(int))
        made.ranges(place, some, low, centre[some, place] + half[some, place].astype(int))
    return made.written(metrics(rng.random(events), 0.01))


def _thresholds(rng: Random, count: int, events: int) -> GeneratedRules:
    """One to three of twenty metrics above a limit that is seldom reached."""
    made = RuleWriter(count)
    for rules, place in _distinct_attributes(rng, count, 20, 3):
        low = (WIDE * (1 - 10 ** rng.uniform(-3, -0.5, len(rules)))).astype(int)
        made.ranges(place, rules, low, np.full(len(rules), WIDE))
    return made.written(rng.integers(0, WIDE, (events, 20)))


def _time_windows(rng: Random, count: int, events: int) -> GeneratedRules:
    """Intervals of a year, for one of a thousand tenants; events are of now."""
    made, every = RuleWriter(count), np.arange(count)
    made.sets(0, every, zipf_ranks(rng, 1000, count, 0.8))
    start = rng.integers(0, WIDE, count)
    made.ranges(1, every, start, start + (10 ** rng.uniform(2, 5.5, count)).astype(int))
    some = np.flatnonzero(rng.random(count) < 0.5)
    made.sets(2, some, rng.integers(0, 5, len(some)))
    now = 700_000 + np.sort(rng.integers(0, 500, events))
    return made.written(np.stack([zipf_ranks(rng, 1000, events, 0.8), now, rng.integers(0, 5, events)], axis=1))


def _intervals_alone(rng: Random, count: int, events: int) -> GeneratedRules:
    """One range of one attribute: price bands."""
    made, every = RuleWriter(count), np.arange(count)
    low = rng.integers(0, WIDE, count)
    made.ranges(0, every, low, low + (10 ** rng.uniform(1, 5, count)).astype(int))
    return made.written(rng.integers(0, WIDE, (events, 1)))


def _booleans(rng: Random, count: int, events: int) -> GeneratedRules:
    """Two to six of twelve attributes of two to four values."""
    made = RuleWriter(count)
    values = rng.integers(2, 5, 12)
    for rules, place in _distinct_attributes(rng, count, 12, 6, least=2):
        made.sets(place, rules, rng.integers(0, values[place], len(rules)))
    return made.written(np.stack([rng.integers(0, each, events) for each in values], axis=1))


def _sparse_skewed(rng: Random, count: int, events: int) -> GeneratedRules:
    """One to four of 5,000 attributes, a few of which are everywhere; values are skewed too."""
    made, attributes = RuleWriter(count), 5000
    size = rng.integers(1, 5, count)
    drawn = zipf_ranks(rng, attributes, (count, 4), 0.9)
    kept = np.arange(4) < size[:, None]
    for place in range(1, 4):
        kept[:, place] &= (drawn[:, :place] != drawn[:, place : place + 1]).all(axis=1)
    rule, which = np.nonzero(kept)
    attribute = drawn[rule, which]
    order = np.argsort(attribute, kind="stable")
    rule, attribute = rule[order], attribute[order]
    starts = np.flatnonzero(np.append(True, attribute[1:] != attribute[:-1])).tolist()
    for first, last in zip(starts, [*starts[1:], len(rule)], strict=True):
        rules, number = rule[first:last], int(attribute[first])
        if number % 3 == 0:
            low = rng.integers(0, 100, len(rules))
            made.ranges(number, rules, low, low + rng.integers(1, 40, len(rules)))
        else:
            made.sets(number, rules, zipf_ranks(rng, 100, len(rules), 0.8))
    values = np.full((events, attributes), -1)
    for row in range(events):
        carried = np.unique(zipf_ranks(rng, attributes, 30, 0.9))
        values[row, carried] = zipf_ranks(rng, 100, len(carried), 0.8)
    return made.written(values)


def _common_equality(rng: Random, count: int, events: int) -> GeneratedRules:
    """Nearly all rules and events are of production; services differ."""
    made, every = RuleWriter(count), np.arange(count)
    made.sets(0, every, np.where(rng.random(count) < 0.97, 0, rng.integers(1, 4, count)))
    some = np.flatnonzero(rng.random(count) < 0.9)
    made.sets(1, some, zipf_ranks(rng, 2000, len(some), 0.9))
    made.ranges(2, every, rng.integers(1, 6, count), np.full(count, 7))
    some, sizes = _some_sets(rng, count, 0.5, 4)
    made.sets(3, some, rng.integers(0, 30, int(sizes.sum())), sizes)
    columns = [
        np.where(rng.random(events) < 0.97, 0, 1), zipf_ranks(rng, 2000, events, 0.9), zipf_ranks(rng, 8, events, 1.0),
        rng.integers(0, 30, events),
    ]  # fmt: skip
    return made.written(np.stack(columns, axis=1))


def _exclusions(rng: Random, count: int, events: int) -> GeneratedRules:
    """`!=` and `not in` on most attributes, and one range."""
    made, every = RuleWriter(count), np.arange(count)
    for place in range(6):
        some, sizes = _some_sets(rng, count, 0.6, 1 if place < 3 else 12)
        made.sets(place, some, zipf_ranks(rng, 50, int(sizes.sum()), 0.7), sizes, negated=True)
    low = rng.integers(0, WIDE, count)
    made.ranges(6, every, low, low + rng.integers(1000, 100_000, count))
    excluded = [zipf_ranks(rng, 50, events, 0.7) for _ in range(6)]
    return made.written(np.stack([*excluded, rng.integers(0, WIDE, events)], axis=1))


def _repeated(rng: Random, count: int, events: int) -> GeneratedRules:
    """Wish lists, four of five of which somebody else has too."""
    distinct = max(1, count // 5)
    once = _wish_lists(rng, distinct, events)
    return taken(once, np.append(np.arange(distinct), zipf_ranks(rng, distinct, count - distinct, 0.6)))


def _alternatives(rng: Random, count: int, events: int) -> GeneratedRules:
    """Disjunctions of two to four conjunctions."""
    owner = np.repeat(np.arange(count), rng.integers(2, 5, count))
    made = RuleWriter(len(owner))
    for rules, place in _distinct_attributes(rng, len(owner), 8, 3, least=2):
        if place < 5:
            some = rng.random(len(rules)) < 0.5
            sizes = np.where(some, rng.integers(2, 6, len(rules)), 1)
            made.sets(place, rules, zipf_ranks(rng, 300, int(sizes.sum()), 0.7), sizes)
        else:
            low = rng.integers(0, 1000, len(rules))
            made.ranges(place, rules, low, low + rng.integers(10, 400, len(rules)))
    drawn = [zipf_ranks(rng, 300, events, 0.7) for _ in range(5)] + [rng.integers(0, 1000, events) for _ in range(3)]
    return made.written(np.stack(drawn, axis=1), owner)


def _mixture(rng: Random, count: int, events: int) -> GeneratedRules:
    """Several of these classes in one index, on attributes of their own; an event is of one class."""
    makers = (_wish_lists, _ad_segments, _geo_boxes, _thresholds, _exclusions, _common_equality)
    sizes = np.diff(np.linspace(0, count, len(makers) + 1).astype(int))
    parts = [make(rng, int(size), events) for make, size in zip(makers, sizes.tolist(), strict=True)]
    widths = [part.events.shape[1] for part in parts]
    rows = np.full((events, sum(widths)), -1, np.int32)
    firsts = np.concatenate([[0], np.cumsum(widths)]).tolist()
    of = rng.integers(0, len(parts), events)
    for number, part in enumerate(parts):
        mine = np.flatnonzero(of == number)
        rows[mine, firsts[number] : firsts[number + 1]] = part.events[mine]
    attribute = [part.attribute + np.int32(first) for part, first in zip(parts, firsts, strict=False)]
    return GeneratedRules(
        _joined([part.offsets for part in parts]), np.concatenate(attribute), np.concatenate([part.kind for part in parts]),
        _joined([part.value_offsets for part in parts]), np.concatenate([part.value for part in parts]), rows,
    )  # fmt: skip


CLASSES: dict[str, Callable[[Random, int, int], GeneratedRules]] = {
    "wish lists": _wish_lists,
    "ad segments": _ad_segments,
    "geo boxes": _geo_boxes,
    "correlated metrics": _correlated_metrics,
    "thresholds": _thresholds,
    "time windows": _time_windows,
    "intervals alone": _intervals_alone,
    "booleans": _booleans,
    "sparse, skewed": _sparse_skewed,
    "a common equality": _common_equality,
    "exclusions": _exclusions,
    "repeated": _repeated,
    "alternatives": _alternatives,
    "mixture": _mixture,
}


def _some_sets(rng: Random, count: int, share: float, most: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns the rules that have a set, and the sizes of their sets."""
    some = np.flatnonzero(rng.random(count) < share)
    return some, rng.integers(1, most + 1, len(some))


def _distinct_attributes(
    rng: Random, count: int, attributes: int, most: int, *, least: int = 1
) -> list[tuple[NDArray[Any], int]]:
    """Returns for each attribute the rules that test it: each rule tests between `least` and `most`."""
    size = rng.integers(least, most + 1, count)
    rank = np.argsort(np.argsort(rng.random((count, attributes)), axis=1), axis=1)
    return [(np.flatnonzero(rank[:, place] < size), place) for place in range(attributes)]


def _joined(offsets: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    ends = np.cumsum([0, *(each[-1] for each in offsets)])
    return np.concatenate([[0], *(each[1:] + end for each, end in zip(offsets, ends.tolist(), strict=False))])
