"""The demo's account of matches and deliveries, which shows whether anything was lost."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import ray_pubsub

__all__ = ["Account"]

Pair = tuple[Any, Any]
"""The id of an event and of a subscription."""


class Account:
    """Compares the matches that an index in this process with the same subscriptions finds (expected) with those that the server
    reports, and with those that were polled. Safe to use from several threads."""

    def __init__(self, index: ray_pubsub.MatchIndex) -> None:
        self._index = index
        self._lock = threading.Lock()
        self.published = self.matched = self.delivered = self.repeated = 0
        self.wrong_batches = 0
        """The number of batches whose matches were not those of the index."""
        self.by_priority: Counter[str] = Counter()
        self._expected: set[Pair] = set()
        self._polled: set[Pair] = set()

    def warm_up(self, events: list[dict[str, Any]]) -> None:
        """Matches once, so that the index is as fast afterwards as it will be."""
        self._index.match_many(events)

    def publish(self, events: list[dict[str, Any]], result: Any) -> None:
        expected = set(self._index.match_many(events, event_id="id").pairs())
        reported = list(result.pairs())
        with self._lock:
            self.published += len(events)
            self.matched += len(reported)
            self.delivered += result.deliveries.delivered
            self.wrong_batches += len(reported) != len(expected) or set(reported) != expected
            self._expected |= expected

    def poll(self, deliveries: list[Any]) -> None:
        with self._lock:
            for delivery in deliveries:
                pair = (delivery.event_id, delivery.subscription_id)
                if pair in self._polled:
                    self.repeated += 1
                else:
                    self._polled.add(pair)
                    self.by_priority[delivery.priority] += 1

    @property
    def expected(self) -> int:
        return len(self._expected)

    @property
    def polled(self) -> int:
        """The number of distinct pairs that were polled, however often each came."""
        return len(self._polled)

    @property
    def lost(self) -> int:
        with self._lock:
            return len(self._expected - self._polled)

    @property
    def invented(self) -> int:
        """The number of pairs that were delivered although nothing matches."""
        with self._lock:
            return len(self._polled - self._expected)

    @property
    def in_order(self) -> bool:
        return not (self.lost or self.invented or self.wrong_batches or self.matched != self.expected)
