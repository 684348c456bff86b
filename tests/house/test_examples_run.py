"""Every example runs, small; those that start a server do so in tests/cluster/test_examples.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = {"wish_lists": ["--subscriptions", "2000", "--events", "20"]}
ON_A_CLUSTER = {"quickstart_server", "async_listener", "demo"}
WITH_SPARK = ["spark_batch", "spark_stream"]
"""Each starts a cluster and a Spark of its own, which takes too long for every run; what they call is tested in tests/spark."""


def test_no_example_is_left_out() -> None:
    examples = {path.stem for path in (ROOT / "examples").glob("*.py")} - {"__init__"}
    examples |= {path.parent.name for path in (ROOT / "examples").glob("*/__main__.py")}
    assert examples == {*SMALL, *ON_A_CLUSTER, *WITH_SPARK}
    tested = (ROOT / "tests" / "cluster" / "test_examples.py").read_text()
    assert [name for name in ON_A_CLUSTER if f'"{name}": [' not in tested] == []


@pytest.mark.parametrize("name", SMALL)
def test_it_runs(name: str) -> None:
    command = [sys.executable, "-m", f"examples.{name}", *SMALL[name]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "after remove: False" in done.stdout


@pytest.mark.parametrize("name", WITH_SPARK)
def test_it_says_what_it_does(name: str) -> None:
    command = [sys.executable, "-m", f"examples.{name}", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert f"python -m examples.{name}" in done.stdout
