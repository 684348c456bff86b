"""Every example runs, small; those that start a server do so in tests/cluster/test_examples.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = {
    "wish_lists": ["--subscriptions", "2000", "--events", "20"],
    "air_quality": ["--residents", "500", "--stations", "20"],
    "ad_segments": ["--campaigns", "500", "--views", "200"],
    "adding_an_engine": [],
    "log_detection": [],
}
SAYS = {
    "wish_lists": "after remove: False",
    "air_quality": "is warned of station-",
    "ad_segments": "the widest audiences",
    "adding_an_engine": "equal: True",
    "log_detection": "critical 02:12:40  web-1   Encoded command line, Shell started by a web server",
}
ON_A_CLUSTER = {"quickstart_server", "async_listener", "mine_monitoring", "webhook_routing"}
ELSEWHERE = {
    "spark_batch": "tests/spark/test_examples.py",
    "spark_stream": "tests/spark/test_examples.py",
    "two_nodes": "tests/cluster/failures/test_two_nodes.py",
}
"""Their `main` runs where a session or a cluster of two nodes is running already."""


def test_no_example_is_left_out() -> None:
    examples = {path.stem for path in (ROOT / "examples").glob("*.py")} - {"__init__"}
    examples |= {path.parent.name for path in (ROOT / "examples").glob("*/__main__.py")}
    assert examples == {*SMALL, *ON_A_CLUSTER, *ELSEWHERE}
    tested = (ROOT / "tests" / "cluster" / "test_examples.py").read_text()
    assert [name for name in ON_A_CLUSTER if f'"{name}": [' not in tested] == []
    assert [name for name, path in ELSEWHERE.items() if name not in (ROOT / path).read_text()] == []


@pytest.mark.parametrize("name", SMALL)
def test_it_runs(name: str) -> None:
    command = [sys.executable, "-m", f"examples.{name}", *SMALL[name]]
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert SAYS[name] in done.stdout
    assert [line for line in done.stdout.splitlines() if len(line.rstrip()) > 80] == []


@pytest.mark.parametrize("name", ELSEWHERE)
def test_it_says_what_it_does(name: str) -> None:
    command = [sys.executable, "-m", f"examples.{name}", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert f"python -m examples.{name}" in done.stdout
