"""The workloads of DEXIN (Table 1), GEM (Table I) and REIN (Table II): ranges and points on some of an event's attributes.

    DEXIN                      GEM                        REIN
    N   subscriptions          N   subscriptions          n   subscriptions
    M   attributes             M   attributes             m   attributes of an event
                                                          k   constrained        (DEXIN, GEM: all)
    η   cardinality            (10^6)                     (10^6)
    λ   points                 (0)                        (0)
    θ   width                  θ   width                  w   width
    ξ   matching_rate

Values are the papers' [0, 1] in steps of 1 / cardinality, as whole numbers. A range of width θ begins in [0, 1 - θ].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.workloads.distributions import Distribution, positions
from ray_pubsub.workloads.standard import Workload

__all__ = ["Ranges", "dexin", "gem", "generate_ranges", "rein"]


@dataclass(frozen=True, slots=True)
class Ranges:
    """The parameters of `generate_ranges`."""

    subscriptions: int = 1_000_000
    attributes: int = 10
    constrained: int | None = None
    """Attributes that a subscription tests, chosen at random; None: all."""
    cardinality: int = 1_000_000
    points: float = 0.0
    """The share of the tests that are equalities."""
    width: tuple[float, float] = (0.5, 0.5)
    """The width of a range, drawn between these for each test."""
    distribution: Distribution = "uniform"
    """The distribution of the positions of ranges and points."""
    event_distribution: Distribution = "uniform"
    open_bounds: bool = False
    """Whether the bounds of a range are open or closed at random (GEM section III)."""
    matching_rate: float | None = None
    """If given, every event matches exactly this share of the subscriptions (DEXIN section 4.1.7)."""
    events: int = 400
    seed: int = 1

    def having(self, **changed: Any) -> Ranges:
        """Returns the same with other parameters."""
        return replace(self, **changed)


def dexin(**changed: Any) -> Ranges:
    """Returns the defaults of DEXIN's experiments. With distribution="zipf" its events are Zipf too."""
    setting = Ranges(cardinality=10_000, points=0.1, width=(0.2, 0.8), events=1000)
    return setting.having(event_distribution=changed.get("distribution", "uniform"), **changed)


def gem(**changed: Any) -> Ranges:
    """Returns the defaults of GEM's experiments."""
    return Ranges(open_bounds=True, events=500).having(**changed)


def rein(**changed: Any) -> Ranges:
    """Returns the defaults of REIN's experiments: 10 constraints on events of 20 attributes."""
    return Ranges(attributes=20, constrained=10).having(**changed)


def generate_ranges(setting: Ranges) -> Workload:
    """Returns the same arrays for the same setting, on every machine."""
    rng = np.random.default_rng(setting.seed)
    if setting.matching_rate is not None:
        return _with_matching_rate(rng, setting)
    shape = (setting.subscriptions, setting.constrained or setting.attributes)
    top = setting.cardinality
    width = rng.uniform(*setting.width, shape)
    place = positions(rng, setting.distribution, shape)
    low = np.rint(place * (1 - width) * top).astype(np.int32)
    high = np.minimum(low + np.maximum(1, np.rint(width * top)), top).astype(np.int32)
    if setting.points:
        chosen = rng.random(shape) < setting.points
        point = np.rint(place * top).astype(np.int32)
        low, high = np.where(chosen, point, low), np.where(chosen, point, high)
    values = np.rint(
        positions(rng, setting.event_distribution, (setting.events, setting.attributes)) * top
    ).astype(np.int32)  # fmt: skip
    return _workload(rng, setting, _tested(rng, setting), low, high, values)


def _tested(rng: np.random.Generator, setting: Ranges) -> NDArray[np.int32]:
    if setting.constrained is None or setting.constrained == setting.attributes:
        return np.broadcast_to(
            np.arange(setting.attributes, dtype=np.int32), (setting.subscriptions, setting.attributes)
        )
    drawn = np.argpartition(
        rng.random((setting.subscriptions, setting.attributes), np.float32), setting.constrained, axis=1
    )
    return np.sort(drawn[:, : setting.constrained], axis=1).astype(np.int32)


def _with_matching_rate(rng: np.random.Generator, setting: Ranges) -> Workload:
    """DEXIN section 4.1.7: 1 / ξ events, to each of which an equal share of the subscriptions is bound. On one attribute, chosen at
    random, a subscription covers the value of its own event and of no other; on the others at least that value."""
    assert setting.matching_rate is not None and setting.constrained is None
    own, top, count = round(1 / setting.matching_rate), setting.cardinality, setting.subscriptions
    assert own <= top, "events must differ in every attribute"
    columns = [
        rng.permutation(top)[:own] if own * 8 > top else _distinct(rng, top, own) for _ in range(setting.attributes)
    ]
    base = np.stack(columns, axis=1).astype(np.int32)
    bound = np.arange(count) % own
    value = base[bound]
    shape = value.shape
    width = np.maximum(1, np.rint(rng.uniform(*setting.width, shape) * top))
    least, most = np.maximum(0, value - width), np.minimum(value, top - width)
    low = np.rint(least + rng.random(shape) * np.maximum(0, most - least)).astype(np.int32)
    high = np.minimum(np.maximum(value, low + width), top).astype(np.int32)
    alone = rng.integers(0, setting.attributes, count)
    rows = np.arange(count)
    before, after = _neighbours(base, top)
    for side, ends, towards in ((low, before, -1), (high, after, 1)):
        gap = np.abs(ends[bound, alone] - value[rows, alone])
        side[rows, alone] = value[rows, alone] + towards * np.floor(rng.random(count) * gap).astype(np.int32)
    if setting.points:
        chosen = rng.random(shape) < setting.points
        low, high = np.where(chosen, value, low), np.where(chosen, value, high)
    events = base[np.arange(setting.events) % own]
    return _workload(rng, setting, _tested(rng, setting), low, high, events)


def _distinct(rng: np.random.Generator, top: int, count: int) -> NDArray[np.int64]:
    return rng.choice(top, count, replace=False)


def _neighbours(base: NDArray[np.int32], top: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns for each event and attribute the next smaller and the next larger value of another event, or a value just outside of the
    domain."""
    order = np.argsort(base, axis=0)
    ordered = np.take_along_axis(base, order, axis=0)
    edge = np.ones((1, base.shape[1]), np.int32)
    before, after = np.empty_like(base), np.empty_like(base)
    np.put_along_axis(before, order, np.concatenate([-edge, ordered[:-1]]), axis=0)
    np.put_along_axis(after, order, np.concatenate([ordered[1:], edge * (top + 1)]), axis=0)
    return before, after


def _workload(
    rng: np.random.Generator,
    setting: Ranges,
    tested: NDArray[np.int32],
    low: NDArray[np.int32],
    high: NDArray[np.int32],
    values: NDArray[np.int32],
) -> Workload:
    events, attributes = values.shape
    closed: tuple[NDArray[np.bool_] | None, NDArray[np.bool_] | None] = (None, None)
    if setting.open_bounds:
        # A point has no open bound, or it would hold for no value.
        closed = (
            (rng.random(low.size) < 0.5) | (low == high).ravel(),
            (rng.random(low.size) < 0.5) | (low == high).ravel(),
        )
    return Workload(
        "ranges",
        attributes,
        np.arange(setting.subscriptions + 1, dtype=np.int64) * tested.shape[1],
        tested.ravel(),
        low.astype(np.int32).ravel(),
        high.astype(np.int32).ravel(),
        np.arange(events + 1, dtype=np.int64) * attributes,
        np.tile(np.arange(attributes, dtype=np.int32), events),
        values.ravel(),
        None,
        *closed,
    )
