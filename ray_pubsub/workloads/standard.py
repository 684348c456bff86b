"""The standard workloads W1, W2 and W3, on which every engine is measured.

    W1 `dense`     DEXIN, GEM: 10 attributes, every subscription constrains all, widths uniform in [0.2, 0.8]
    W2 `partial`   REIN Fig. 7: events carry 20 attributes, a subscription constrains 10 random ones, width 0.5
    W3 `sparse`    OpIndex Table 3: 20,000 attributes, 1 to 8 predicates, events of 60 attributes, values 1 to 50;
                   40 % equalities, 30 % upper and 30 % lower bounds

Values of W1 and W2 are the papers' [0, 1] in millionths, as integers. A smaller count is a prefix of the million.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Workload", "dense", "partial", "sparse"]

SCALE = 1_000_000
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Workload:
    """Subscriptions as closed integer intervals and events as values, both in CSR form over attribute numbers."""

    name: str
    attributes: int
    offsets: NDArray[np.int64]
    attribute: NDArray[np.int32]
    low: NDArray[np.int32]
    high: NDArray[np.int32]
    event_offsets: NDArray[np.int64]
    event_attribute: NDArray[np.int32]
    event_value: NDArray[np.int32]
    matches_of_a_million: int | None = None
    """The number of matches of these events with the million, to check a run."""
    low_closed: NDArray[np.bool_] | None = None
    """Whether each bound belongs to its interval; None: all do."""
    high_closed: NDArray[np.bool_] | None = None

    @property
    def subscriptions(self) -> int:
        return len(self.offsets) - 1

    @property
    def events(self) -> int:
        return len(self.event_offsets) - 1

    def names(self) -> list[str]:
        return [f"a{number}" for number in range(self.attributes)]

    def predicates(self) -> Any:
        """Returns the subscriptions as a table for `MatchIndex.add_predicates`; ids are 0, 1, …"""
        import pyarrow as pa

        ids = np.repeat(np.arange(self.subscriptions), np.diff(self.offsets))
        attribute = pa.DictionaryArray.from_arrays(pa.array(self.attribute), pa.array(self.names()))
        columns = {"id": ids, "attribute": attribute, "low": self.low, "high": self.high}
        if self.low_closed is not None:
            columns |= {"low_closed": self.low_closed, "high_closed": self.high_closed}
        return pa.table(columns)

    def closed(self) -> Workload:
        """Returns the same with closed bounds only: values are whole numbers, so an open bound is the closed one next to it."""
        if self.low_closed is None or self.high_closed is None:
            return self
        low, high = self.low + ~self.low_closed, self.high - ~self.high_closed
        return replace(self, low=low.astype(np.int32), high=high.astype(np.int32), low_closed=None, high_closed=None)

    def matches(self) -> list[NDArray[np.int64]]:
        """Returns for each event the subscriptions that match, by comparing every test: slow, but simple enough to be trusted."""
        plain = self.closed()
        owner = np.repeat(np.arange(self.subscriptions), np.diff(self.offsets))
        found = []
        for number in range(self.events):
            cells = slice(int(self.event_offsets[number]), int(self.event_offsets[number + 1]))
            values = np.full(self.attributes, np.iinfo(np.int32).min, np.int32)
            values[self.event_attribute[cells]] = self.event_value[cells]
            value = values[self.attribute]
            fails = (value < plain.low) | (value > plain.high)
            holds = np.ones(self.subscriptions, bool)
            holds[owner[fails]] = False
            found.append(np.flatnonzero(holds))
        return found

    def event_dicts(self) -> list[dict[str, int]]:
        names, events = self.names(), []
        for number in range(self.events):
            cells = slice(int(self.event_offsets[number]), int(self.event_offsets[number + 1]))
            pairs = zip(self.event_attribute[cells].tolist(), self.event_value[cells].tolist(), strict=True)
            events.append({names[attribute]: value for attribute, value in pairs})
        return events


def dense(count: int = MILLION, attributes: int = 10, events: int = 200) -> Workload:
    """W1: every subscription has an interval on each of ten attributes, every event a value for each."""
    rng = np.random.default_rng(20240601)
    width = rng.uniform(0.2, 0.8, (MILLION, attributes))
    start = rng.uniform(0, 1, (MILLION, attributes)) * (1 - width)
    low = np.rint(start * SCALE).astype(np.int32)[:count]
    high = np.rint((start + width) * SCALE).astype(np.int32)[:count]
    values = rng.integers(0, SCALE + 1, (events, attributes)).astype(np.int32)
    every = np.arange(attributes, dtype=np.int32)
    offsets, event_offsets = np.arange(count + 1) * attributes, np.arange(events + 1) * attributes
    bounds = (np.tile(every, count), low.ravel(), high.ravel())
    return Workload("W1", attributes, offsets, *bounds, event_offsets, np.tile(every, events), values.ravel(), 198_596)


def partial(
    count: int = MILLION, attributes: int = 20, constrained: int = 10, width: float = 0.5, events: int = 200
) -> Workload:
    """W2: intervals on ten of twenty attributes."""
    rng = np.random.default_rng(20240602)
    drawn = np.argsort(rng.random((MILLION, attributes)), axis=1)[:, :constrained]
    chosen = np.sort(drawn, axis=1).astype(np.int32)[:count]
    low = np.rint(rng.uniform(0, 1 - width, (MILLION, constrained)) * SCALE).astype(np.int32)[:count]
    high = low + int(width * SCALE)
    values = rng.integers(0, SCALE + 1, (events, attributes)).astype(np.int32)
    every = np.arange(attributes, dtype=np.int32)
    offsets, event_offsets = np.arange(count + 1) * constrained, np.arange(events + 1) * attributes
    bounds = (chosen.ravel(), low.ravel(), high.ravel())
    return Workload("W2", attributes, offsets, *bounds, event_offsets, np.tile(every, events), values.ravel(), 192_175)


def sparse(
    count: int = MILLION,
    attributes: int = 20_000,
    largest: int = 8,
    per_event: int = 60,
    values: int = 50,
    events: int = 1000,
) -> Workload:
    """W3: one to eight predicates on 20,000 attributes; an event carries sixty of them."""
    rng = np.random.default_rng(20240603)
    size = rng.integers(1, largest + 1, count)
    offsets = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    drawn = rng.integers(0, attributes, (count, largest))
    while True:  # distinct attributes within a subscription
        ordered = np.sort(drawn, axis=1)
        repeated = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        if not repeated.any():
            break
        drawn[repeated] = rng.integers(0, attributes, (int(repeated.sum()), largest))
    attribute = drawn[np.arange(largest)[None, :] < size[:, None]].astype(np.int32)
    draw = rng.random(len(attribute))
    operand = rng.integers(1, values + 1, len(attribute)).astype(np.int32)
    low = np.where((draw >= 0.4) & (draw < 0.7), 1, operand).astype(np.int32)
    high = np.where(draw >= 0.7, values, operand).astype(np.int32)
    chosen = [rng.choice(attributes, per_event, replace=False) for _ in range(events)]
    event_attribute = np.stack(chosen).astype(np.int32).ravel()
    event_value = rng.integers(1, values + 1, (events, per_event)).astype(np.int32).ravel()
    event_offsets = np.arange(events + 1) * per_event
    return Workload(
        "W3", attributes, offsets, attribute, low, high, event_offsets, event_attribute, event_value, 118_377
    )
