"""The statistics of the server and of this process in Prometheus' text format, under the names that Ray's exporter gives them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from actors.client.server_stats import ServerStats
from actors.telemetry.metrics import COUNTERS, GAUGES, numbers_of_mailboxes, numbers_of_stats
from actors.telemetry.process_memory import process_bytes

if TYPE_CHECKING:
    from actors.http.application import Application

__all__ = ["CONTENT_TYPE", "exposition"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "ray_pubsub"
STARTED = time.time()


def exposition(app: Application, stats: ServerStats | None) -> bytes:
    """Returns the metrics as text. If `stats` is None, because the server is away, only this process is reported."""
    families = _Families()
    if stats is not None:
        for role, number, numbers in _roles(stats):
            for (name, tags), value in numbers.items():
                labels = {"server": stats.name, "role": role, "number": str(number), **dict(tags)}
                counter = name in COUNTERS[role]
                text = COUNTERS[role].get(name) or GAUGES[role].get(name, name)
                suffix = "_total" if counter else ""
                families.add(f"{PREFIX}_{role}_{name}{suffix}", "counter" if counter else "gauge", text, labels, value)
    own = {"server": app.settings.server}
    families.add(f"{PREFIX}_http_up", "gauge", "1 if the server is connected", own, float(app.backend.ready))
    families.add(f"{PREFIX}_http_streams", "gauge", "open event streams", own, len(app.streams))
    families.add(f"{PREFIX}_http_stream_messages_total", "counter", "deliveries sent on streams", own, app.streams.sent)
    families.add(f"{PREFIX}_http_memory_bytes", "gauge", "bytes of the HTTP process", own, process_bytes())
    families.add(f"{PREFIX}_http_start_time_seconds", "gauge", "when the HTTP process was started", own, STARTED)
    for (path, status), count in sorted(app.answered.items()):
        labels = {**own, "path": path, "status": str(status)}
        families.add(f"{PREFIX}_http_requests_total", "counter", "requests answered", labels, count)
    for webhook in app.webhooks.listed():
        for name in ("sent", "accepted", "failed"):
            if name in webhook:
                labels = {**own, "webhook": webhook["id"]}
                families.add(
                    f"{PREFIX}_http_webhook_{name}_total", "counter", f"requests {name}", labels, webhook[name]
                )
    return families.text()


def _roles(stats: ServerStats) -> Iterator[tuple[str, int, Mapping[Any, float]]]:
    if stats.registry:
        yield "registry", 0, numbers_of_stats("registry", stats.registry)
    for shard in stats.shards:
        yield "shard", shard["number"], numbers_of_stats("shard", shard)
    for each in stats.coordinators:
        yield "coordinator", each["number"], numbers_of_stats("coordinator", each)
    if stats.mailboxes is not None:
        yield "mailboxes", 0, numbers_of_mailboxes(stats.mailboxes)


class _Families:
    """Collects samples, with all samples of a metric together, as the format requires."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {}

    def add(self, name: str, kind: str, text: str, labels: Mapping[str, str], value: float) -> None:
        lines = self._found.setdefault(name, [f"# HELP {name} {text}", f"# TYPE {name} {kind}"])
        inside = ",".join(f'{label}="{_escaped(content)}"' for label, content in labels.items())
        lines.append(f"{name}{{{inside}}} {value:.15g}")

    def text(self) -> bytes:
        return "".join(f"{line}\n" for lines in self._found.values() for line in lines).encode()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
