"""What Ray exports for Prometheus, read where Prometheus would read it."""

from __future__ import annotations

import importlib
import re
import time
import urllib.request

import pytest

from actors.client.server import Server
from actors.cluster.joining import Joined
from actors.telemetry.metrics import COUNTERS, GAUGES, HISTOGRAMS

NEEDED = ("opencensus", "opentelemetry.exporter.prometheus", "prometheus_client", "aiohttp_cors", "pydantic")
LONGEST = 150.0


@pytest.fixture(scope="module")
def endpoint(cluster: Joined) -> str:
    for module in NEEDED:
        importlib.import_module(module)  # the locked dependencies have them; without, Ray exports nothing
    import ray

    (node,) = ray.nodes()
    return f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"


def exported(endpoint: str, server: str) -> dict[tuple[str, str, str], float]:
    """By name, role and number."""
    with urllib.request.urlopen(endpoint, timeout=10) as answer:
        text = answer.read().decode()
    found = {}
    for name, tags, value in re.findall(r"^ray_(pubsub_\w+)\{(.*)\} (\S+)$", text, re.MULTILINE):
        known = dict(re.findall(r'(\w+)="([^"]*)"', tags))
        if known.get("server") == server:
            found[name, known["role"], known["number"]] = float(value)
    return found


def test_metrics_are_exported(server: Server, endpoint: str) -> None:
    server.subscribe("metrics", "metrics.x >= 0", id="metrics-1")
    before = server.stats().coordinators[0]["events"]
    server.publish([{"metrics.x": number} for number in range(100)])
    ends = time.monotonic() + LONGEST
    wanted = ("pubsub_coordinator_events_total", "coordinator", "0")
    found: dict[tuple[str, str, str], float] = {}
    while found.get(wanted, 0) < before + 100 and time.monotonic() < ends:
        time.sleep(0.5)  # told and exported every few seconds; nobody says when
        found = exported(endpoint, server.name)
    assert found[wanted] >= before + 100
    assert found["pubsub_mailboxes_delivered_total", "mailboxes", "0"] >= 100
    assert found["pubsub_coordinator_publish_seconds_count", "coordinator", "0"] >= 1
    assert found["pubsub_registry_subscriptions", "registry", "0"] >= 1
    names = {name for name, _, _ in found}
    for role in GAUGES:
        assert any(name.startswith(f"pubsub_{role}_") for name in names), role
    for shard in ("0", "1"):
        assert found["pubsub_shard_memory_bytes", "shard", shard] > 2**20
        assert found["pubsub_shard_loading", "shard", shard] == 0


def test_no_two_metrics_share_a_name() -> None:
    for role in GAUGES:
        names = [*COUNTERS[role], *GAUGES[role], *HISTOGRAMS[role]]
        assert len(names) == len(set(names))
