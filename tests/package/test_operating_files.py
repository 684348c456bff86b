"""The files that the documentation hands out for running a server: manifests for KubeRay, a dashboard for Grafana."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import jsonschema
import pytest
import yaml

from actors.telemetry.metrics import COUNTERS, GAUGES, HISTOGRAMS
from tests.house.source_tree import ROOT

SCHEMAS = json.loads((ROOT / "tests" / "package" / "kuberay_schema.json").read_text())
"""KubeRay's schemas of its resources, v1. Of what our manifests do not use only the names are kept, which find a misspelt one."""
RESOURCES = [
    each
    for path in sorted((ROOT / "docs" / "kubernetes").glob("*.yaml"))
    for each in yaml.safe_load_all(path.read_text())
]
OF_RAY = [each for each in RESOURCES if each["apiVersion"].startswith("ray.io/")]


@pytest.mark.parametrize("resource", OF_RAY, ids=lambda each: each["kind"])
def test_manifests_are_valid(resource: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(SCHEMAS[resource["kind"]]).validate(resource)


def test_a_misspelt_field_is_found() -> None:
    wrong = copy.deepcopy(OF_RAY[0])
    wrong["spec"]["headGroupSpec"]["template"]["spec"]["contaners"] = []
    with pytest.raises(jsonschema.ValidationError, match="contaners"):
        jsonschema.Draft202012Validator(SCHEMAS["RayCluster"]).validate(wrong)


def test_the_cluster_has_a_token_and_no_root() -> None:
    (cluster,) = (each for each in OF_RAY if each["kind"] == "RayCluster")
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    for group in groups:
        pod = group["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        (container,) = pod["containers"]
        variables = {each["name"]: each for each in container["env"]}
        assert variables["RAY_AUTH_MODE"]["value"] == "token"
        assert "secretKeyRef" in variables["RAY_AUTH_TOKEN"]["valueFrom"]


def exported() -> set[str]:
    names = {f"ray_pubsub_{role}_{name}_total" for role, counters in COUNTERS.items() for name in counters}
    names |= {f"ray_pubsub_{role}_{name}" for role, gauges in GAUGES.items() for name in gauges}
    return names | {
        f"ray_pubsub_{role}_{name}_bucket" for role, histograms in HISTOGRAMS.items() for name in histograms
    }


def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    dashboard = json.loads((ROOT / "docs" / "grafana" / "ray-pubsub.json").read_text())
    asked = {
        name for panel in dashboard["panels"] for target in panel["targets"] for name in metric_names(target["expr"])
    }
    assert len(dashboard["panels"]) >= 10 and asked <= exported()
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_the_alerts_in_the_documents_ask_for_metrics_that_exist() -> None:
    text = (ROOT / "docs" / "operating.md").read_text()
    assert metric_names(text) <= exported()


def metric_names(text: str) -> set[str]:
    return set(re.findall(r"\bray_pubsub_\w+", text))
