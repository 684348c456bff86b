"""Who got what: the account that shows whether anything was lost."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import ray_pubsub

__all__ = ["Account"]

Pair = tuple[Any, Any]
"""An event's id and a subscription's."""


class Account:
    """Every match is expected, by an index in this process that has the same subscriptions; reported, by the server; and polled.
    Safe to use from several threads."""

    def __init__(self, index: ray_pubsub.MatchIndex) -> None:
        self._index = index
        self._lock = threading.Lock()
        self.published = self.matched = self.delivered = self.repeated = 0
        self.wrong_batches = 0
        """Batches whose matches were not those of the index."""
        self.by_priority: Counter[str] = Counter()
        self._expected: set[Pair] = set()
        self._polled: set[Pair] = set()

    def warm_up(self, events: list[dict[str, Any]]) -> None:
        """The index is as quick afterwards as it will be."""
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
        """Each once, however often it came."""
        return len(self._polled)

    @property
    def lost(self) -> int:
        with self._lock:
            return len(self._expected - self._polled)

    @property
    def invented(self) -> int:
        """Delivered, and matched by nothing."""
        with self._lock:
            return len(self._polled - self._expected)

    @property
    def in_order(self) -> bool:
        return not (self.lost or self.invented or self.wrong_batches or self.matched != self.expected)
