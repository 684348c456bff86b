"""Exports an actor's statistics as Ray metrics, which Ray offers to Prometheus on every node (`ray_pubsub_…`, with the tags server, role
and number).

What an actor counts anyway (`stats`) is read every few seconds, so that no batch pays for it; the durations of batches are kept until then.
Ray exports metrics only if it is installed as `ray[default]`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from actors.mailboxes.summary import MailboxSummary
from ray_pubsub.errors import RayPubSubError

__all__ = ["ActorMetrics", "numbers_of_mailboxes", "numbers_of_stats"]

logger = logging.getLogger(__name__)

PREFIX = "pubsub"
"""The prefix of our metrics; Ray puts its own name before it."""
EVERY = 5.0
PARTS_OF_TIME, LONGEST_PAUSE = 100, 60.0
"""Reading takes at most one hundredth of the time, so statistics that take long are read less often, but at least once a minute."""
SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)

MOST_WAITING, AT_ONCE = 1 << 18, 32
"""The most durations that are kept for the next report, and those that are reported without letting other threads go on."""

Tagged = tuple[str, tuple[tuple[str, str], ...]]
"""The name of a metric, and its tags beside those of the actor."""

COUNTERS = {
    "shard": {"events": "events matched", "matches": "matches found", "batches": "batches matched"},
    "coordinator": {
        "events": "events published",
        "bad_events": "events that could not be used",
        "matches": "matches of published events",
        "batches": "batches published",
        "retries": "times that a shard was asked again",
        "failed": "batches that failed",
        "refused": "batches refused because too much was waiting",
        "refused_by_level": "batches of a level refused because too much was waiting",
        "deadly": "events left out because a shard died of them",
    },
    "mailboxes": {
        "delivered": "deliveries that entered mailboxes",
        "acked": "deliveries acknowledged",
        "redeliveries": "deliveries handed out again",
        "rejected": "deliveries that found a mailbox full",
        "dropped": "deliveries dropped to make room",
        "expired": "deliveries dropped after their deadline",
        "duplicates": "deliveries that were there already",
    },
    "registry": {"rerouted": "subscriptions that got another route because events carry other attributes"},
}
GAUGES = {
    "shard": {
        "subscriptions": "subscriptions held",
        "clauses": "clauses held",
        "index_bytes": "bytes of the index",
        "cache_hit_rate": "part of the events looked up in the cache of code vectors that needed no matching",
        "cache_bytes": "bytes of the cache of code vectors",
        "memory_bytes": "bytes of the process",
        "version": "version of the registry's data",
        "epoch": "which instance this is",
        "loading": "1 while it has not loaded its subscriptions",
    },
    "coordinator": {
        "in_flight": "batches being worked on",
        "waiting": "batches waiting for their turn",
        "lease_left": "seconds for which it may publish without hearing from the registry",
        "version": "version of the registry's data",
        "epoch": "which instance this is",
        "memory_bytes": "bytes of the process",
    },
    "mailboxes": {
        "mailboxes": "mailboxes",
        "waiting": "deliveries waiting",
        "in_flight": "deliveries polled and not settled",
        "dead": "dead letters",
        "oldest_wait": "seconds that the oldest delivery has waited",
        "on_time_rate": "part of the deliveries of a level that were on time (EDOR)",
    },
    "registry": {
        "subscriptions": "subscriptions there are",
        "subscribers": "subscribers there are",
        "rules": "priority rules there are",
        "file_bytes": "bytes of the registry's files",
        "fan_out": "shards that an event is expected to visit",
        "version": "version of the data",
        "epoch": "which instance this is",
        "memory_bytes": "bytes of the process",
    },
}
HISTOGRAMS = {
    "shard": {"match_seconds": "seconds to match a batch"},
    "coordinator": {"publish_seconds": "seconds to publish a batch"},
    "mailboxes": {},
    "registry": {},
}
EXTRA_TAGS = {"on_time_rate": ("level",), "refused_by_level": ("level",)}


class ActorMetrics:
    """The metrics of one actor, in its process."""

    def __init__(self, library: Any, server: str, role: str, number: int = 0) -> None:
        """`library` is `ray.util.metrics`, or any other module with its three kinds of metrics."""
        tags = {"server": server, "role": role, "number": str(number)}

        def made(kind: Callable[..., Any], names: Mapping[str, str], **more: Any) -> dict[str, Any]:
            found = {}
            for name, text in names.items():
                keys = (*tags, *EXTRA_TAGS.get(name, ()))
                metric = kind(f"{PREFIX}_{role}_{name}", f"{role}: {text}", tag_keys=keys, **more)
                metric.set_default_tags(tags)
                found[name] = metric
            return found

        self._role = role
        self._counters = made(library.Counter, COUNTERS[role])
        self._gauges = made(library.Gauge, GAUGES[role])
        self._histograms = made(library.Histogram, HISTOGRAMS[role], boundaries=list(SECONDS))
        self._reported: dict[Tagged, float] = {}
        self._observed: list[tuple[deque[float], Callable[[float], None]]] = []

    def observing(self, name: str) -> Callable[[float], None]:
        """Returns the function that takes one value of a histogram. The values are reported with the next `report`: Ray takes as long for
        one as it takes to match an event."""
        waiting: deque[float] = deque(maxlen=MOST_WAITING)
        self._observed.append((waiting, self._histograms[name].observe))
        return waiting.append

    def report(self, numbers: Mapping[Tagged, float]) -> None:
        """Reports values. Counters are given as totals; Ray's counters get the difference to the last report."""
        for waiting, observe in self._observed:
            for place in range(len(waiting)):
                observe(waiting.popleft())
                if place % AT_ONCE == AT_ONCE - 1:
                    time.sleep(0)  # lets a batch that waits for the interpreter go first
        for (name, more), value in numbers.items():
            if name in self._gauges:
                self._gauges[name].set(value, tags=dict(more) or None)
        for (name, more), grown in growth(self._reported, numbers, self._counters).items():
            self._counters[name].inc(grown, tags=dict(more) or None)
        self._reported.update(numbers)

    def follow(self, read: Callable[[], Mapping[Tagged, float]]) -> None:
        """Reads and reports for ever, in a thread."""
        threading.Thread(target=self._follow, args=(read,), name=f"{self._role}-metrics", daemon=True).start()

    def _follow(self, read: Callable[[], Mapping[Tagged, float]]) -> None:
        while True:
            started = time.thread_time()  # CPU time, so that a busy machine does not report less often
            try:
                self.report(read())
            except RayPubSubError as error:  # the actor is being closed, or could not open its files
                logger.debug("no metrics: %s", error)
            except Exception:  # the actor's work must go on, measured or not
                logger.exception("could not report the metrics")
            time.sleep(min(LONGEST_PAUSE, max(EVERY, PARTS_OF_TIME * (time.thread_time() - started))))


def growth(
    reported: Mapping[Tagged, float], numbers: Mapping[Tagged, float], counters: Iterable[str]
) -> dict[Tagged, float]:
    """Returns by how much the counters have grown since the last report. A counter that has shrunk (a mailbox was removed) has not grown.

    >>> growth({("events", ()): 3.0}, {("events", ()): 10.0, ("version", ()): 2.0}, ["events"])
    {('events', ()): 7.0}
    """
    known = set(counters)
    grown = {key: value - reported.get(key, 0.0) for key, value in numbers.items() if key[0] in known}
    return {key: more for key, more in grown.items() if more > 0}


def numbers_of_stats(role: str, stats: Mapping[str, Any]) -> dict[Tagged, float]:
    """Returns the exported part of the `stats` of a shard, a coordinator or the registry."""
    found = {
        **stats,
        **stats.get("routes", {}),
        "file_bytes": stats.get("bytes"),
        "loading": stats.get("state") == "loading",
    }
    numbers: dict[Tagged, float] = {}
    for name in (*COUNTERS[role], *GAUGES[role]):
        value = found.get(name)
        if name in EXTRA_TAGS:
            numbers |= {(name, (("level", level),)): float(count) for level, count in (value or {}).items()}
        elif value is not None:
            numbers[name, ()] = float(value)
    return numbers


def numbers_of_mailboxes(summary: MailboxSummary) -> dict[Tagged, float]:
    sums = {
        name: getattr(summary, name)
        for name in (*COUNTERS["mailboxes"], *GAUGES["mailboxes"])
        if name not in EXTRA_TAGS
    }
    sums["oldest_wait"] = summary.oldest_wait or 0.0
    numbers: dict[Tagged, float] = {(name, ()): float(value) for name, value in sums.items()}
    for level, rate in summary.on_time.items():
        # If nothing has become due, nothing is late: a dashboard shows the level before it has its first consumer.
        numbers["on_time_rate", (("level", level),)] = 1.0 if rate is None else rate
    return numbers
