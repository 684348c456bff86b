"""The counters of a coordinator, and what it learns about the attributes of events."""

from __future__ import annotations

import threading
from heapq import nlargest
from operator import itemgetter
from typing import Any

from actors.telemetry.latencies import Latencies
from actors.telemetry.recent_rate import RecentRate
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.sharding.frequency import AttributeFrequencies

__all__ = ["PublishCounts"]

HOT = 10
"""The number of attributes listed in `stats`: those that most events carry."""
COUNTED = ("batches", "events", "bad_events", "matches", "retries", "failed", "deadly")
"""`deadly`: events that made a shard crash."""


class PublishCounts:
    """Counts what a coordinator publishes. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(COUNTED, 0)
        self._learned = AttributeFrequencies()
        self._rate = RecentRate()
        self.latencies = Latencies()

    def add(self, **more: int) -> None:
        """Adds to counters by name, for example add(failed=1)."""
        with self._lock:
            for name, count in more.items():
                self._counts[name] += count

    def published(self, batch: EventBatch, events: int, bad_events: int, matches: int, seconds: float) -> None:
        with self._lock:
            counts = self._counts
            counts["batches"] += 1
            counts["events"] += events
            counts["bad_events"] += bad_events
            counts["matches"] += matches
            self.latencies.add(seconds)
            self._rate.add(events)
            self._learned.observe(batch)

    def frequencies(self) -> dict[str, Any]:
        """Returns how often attributes occur in events, for the registry."""
        with self._lock:
            return self._learned.state()

    def state(self) -> dict[str, Any]:
        """Returns the counts for `stats`."""
        with self._lock:
            return {
                **self._counts,
                "events_per_second": self._rate.per_second(),
                "latencies": self.latencies.state(),
                "hot_pivots": nlargest(HOT, self._learned.frequencies().items(), key=itemgetter(1)),
            }
