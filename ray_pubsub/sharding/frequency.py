"""How often each attribute occurs in events: an exponentially decaying average, learned batch by batch.

A count is halved every `half_life` events. Instead of multiplying every count at every batch, newer events get a larger weight; all
weights are scaled back before they overflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import log
from typing import Any

from ray_pubsub.errors import SettingError
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["AttributeFrequencies"]

HALF_LIFE = 100_000
"""In events. For an attribute that one event in a thousand has, about a hundred and fifty occurrences are remembered: enough to compare
it with others. A change of the stream shows after as many events as a server handles in seconds."""
MOST_ATTRIBUTES = 65_536
HEAVIEST_EVENT = 2.0**200
RAREST = 1 / 128
"""The least cost of a clause: one whose pivot never occurs still takes memory, and time when it changes."""


class AttributeFrequencies:
    """The share of events that carry each attribute. Not thread-safe: let each thread learn its own, and merge them.

    >>> from ray_pubsub.model.events import read_events
    >>> seen = AttributeFrequencies()
    >>> seen.observe(read_events([{"price": 1, "model": "x"}, {"price": 2}]))
    >>> seen.frequency("price"), seen.frequency("model"), seen.frequency("colour")
    (1.0, 0.5, 0.0)
    """

    def __init__(self, half_life: int = HALF_LIFE, most_attributes: int = MOST_ATTRIBUTES) -> None:
        for name, value in (("half_life", half_life), ("most_attributes", most_attributes)):
            if not isinstance(value, int) or value < 1:
                raise SettingError(name, f"must be a whole number of at least 1, not {value!r}")
        self.half_life = half_life
        self.most_attributes = most_attributes
        self._counts: dict[str, float] = {}
        self._events = 0.0
        self.observed = 0.0
        """The number of events ever observed, none of them reduced."""
        self._weight = 1.0
        """The weight of an event now, relative to one at the beginning or at the last scaling back."""

    def __len__(self) -> int:
        """The number of attributes known."""
        return len(self._counts)

    @property
    def events(self) -> float:
        """The number of events observed, to which the shares are relative; older ones have less weight."""
        return self._events / self._weight

    def observe(self, batch: EventBatch) -> None:
        """Counts the events of a batch and the attributes they have: one number per lane, nothing per event."""
        if not batch.size:
            return
        # 2 ** 100 at a time: a batch may be larger than many half lives.
        self._weight *= 2.0 ** min(batch.size / self.half_life, 100.0)
        weight, counts = self._weight, self._counts
        self._events += weight * batch.size
        self.observed += batch.size
        if batch.size == 1:
            for attribute in batch.attributes():
                counts[attribute] = counts.get(attribute, 0.0) + weight
        else:
            for lane in batch.lanes:  # lanes of one attribute differ in kind and so share no event
                if len(lane):
                    counts[lane.attribute] = counts.get(lane.attribute, 0.0) + weight * len(lane)
        if self._weight > HEAVIEST_EVENT:
            self._scale_back()
        if len(counts) > self.most_attributes:
            self._forget_the_rarest()

    def frequency(self, attribute: str) -> float:
        """Returns the share of events that have the attribute, from 0 to 1; 0 if no event did."""
        count = self._counts.get(attribute)
        return 0.0 if count is None else min(1.0, count / self._events)

    def load(self, attribute: str) -> float:
        """Returns the cost of a clause under this pivot, relative to one that every event visits. All cost the same until events have
        been seen."""
        return max(RAREST, self.frequency(attribute)) if self._events else 1.0

    def frequencies(self) -> dict[str, float]:
        """Returns the frequencies of all known attributes."""
        return {attribute: self.frequency(attribute) for attribute in self._counts}

    def counts(self) -> dict[str, float]:
        """Returns for each attribute the number of events that carried it; older ones have less weight, as in `events`."""
        return {attribute: count / self._weight for attribute, count in self._counts.items()}

    def merge(self, other: AttributeFrequencies) -> None:
        """Adds what another object has learned from other events."""
        ratio = self._weight / other._weight
        self._events += other._events * ratio
        self.observed += other.observed
        for attribute, count in other._counts.items():
            self._counts[attribute] = self._counts.get(attribute, 0.0) + count * ratio
        if len(self._counts) > self.most_attributes:
            self._forget_the_rarest()

    def faded_by(self, later: Iterable[AttributeFrequencies]) -> AttributeFrequencies:
        """Returns these frequencies, reduced by the events that the others have seen since."""
        part = 1.0
        for other in later:
            # Of n events hl / ln 2 * (1 - 2 ** (-n / hl)) are remembered, and of what was before them 2 ** (-n / hl).
            part *= max(0.0, 1 - other.events * log(2) / other.half_life)
        made = AttributeFrequencies(self.half_life, self.most_attributes)
        made._events, made.observed = part * self.events, self.observed
        made._counts = {name: part * count / self._weight for name, count in self._counts.items()} if part else {}
        return made

    def state(self) -> dict[str, Any]:
        """Returns the whole state, as plain data for msgpack."""
        return {
            "half_life": self.half_life,
            "most_attributes": self.most_attributes,
            "events": self.events,
            "observed": self.observed,
            "counts": self.counts(),
        }

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> AttributeFrequencies:
        """Restores what `state` returned."""
        made = cls(state["half_life"], state["most_attributes"])
        made._events = float(state["events"])
        made.observed = float(state.get("observed", made._events))  # release 0.1 did not count them
        made._counts = {attribute: float(count) for attribute, count in state["counts"].items()}
        return made

    def _scale_back(self) -> None:
        scale, self._weight = self._weight, 1.0
        self._events /= scale
        for attribute in self._counts:
            self._counts[attribute] /= scale

    def _forget_the_rarest(self) -> None:
        """Drops a quarter of the names at once, so that the next new name does not cause it again."""
        kept = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))[
            : max(1, self.most_attributes * 3 // 4)
        ]
        self._counts = dict(kept)
