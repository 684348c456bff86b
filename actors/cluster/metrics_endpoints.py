"""Finds the addresses at which Prometheus reads the metrics that Ray exports, one for each node."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from actors.cluster import ray_internals

__all__ = ["EXPORTER_MISSING", "metrics_urls"]

EXPORTER = ("opencensus", "prometheus_client", "aiohttp_cors")
"""The modules that Ray's exporter imports and that `ray` alone does not install."""
EXPORTER_MISSING = (
    "not exported; pip install 'ray-pubsub[metrics]' on the cluster's machines, and start the cluster again"
)


def metrics_urls() -> list[str]:
    """Returns the URLs of all nodes. Empty if Ray is installed here without its exporter: the ports are assigned all the same, but
    nothing listens there."""
    if any(find_spec(module) is None for module in EXPORTER):
        return []
    return urls_of(ray_internals.import_ray().nodes())


def urls_of(nodes: list[dict[str, Any]]) -> list[str]:
    """Returns the metrics URLs of the nodes that are alive.

    >>> urls_of([{"Alive": True, "NodeManagerAddress": "10.0.0.5", "MetricsExportPort": 8080}, {"Alive": False}])
    ['http://10.0.0.5:8080/metrics']
    """
    return sorted(
        f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
        for node in nodes
        if node.get("Alive") and node.get("MetricsExportPort")
    )
