"""What an actor reports to Ray, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

from actors.telemetry import metrics
from actors.telemetry.metrics import ActorMetrics


class Metric:
    """Keeps what is reported under each name."""

    reported: ClassVar[dict[str, list[float]]] = {}

    def __init__(self, name: str, text: str, **more: Any) -> None:
        self._values = self.reported.setdefault(name, [])

    def set_default_tags(self, tags: dict[str, str]) -> None:
        assert tags["server"] == "default"

    def record(self, value: float, tags: Any = None) -> None:
        self._values.append(value)

    set = inc = observe = record


def test_durations_are_reported_all_with_the_next_report() -> None:
    Metric.reported.clear()
    found = ActorMetrics(SimpleNamespace(Counter=Metric, Gauge=Metric, Histogram=Metric), "default", "shard")
    observe, durations = found.observing("match_seconds"), [number / 1000 for number in range(3 * metrics.AT_ONCE + 1)]
    for seconds in durations:
        observe(seconds)
    reported = Metric.reported["pubsub_shard_match_seconds"]
    assert reported == []
    found.report({("events", ()): 5.0})
    assert reported == durations and Metric.reported["pubsub_shard_events"] == [5.0]
    observe(7.0)
    found.report({("events", ()): 6.0})
    assert reported == [*durations, 7.0] and Metric.reported["pubsub_shard_events"] == [5.0, 1.0]
