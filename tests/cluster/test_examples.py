"""The examples that start a server run, small, and end with nothing lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from actors.cluster import Joined

ROOT = Path(__file__).parents[2]
SMALL = {
    "quickstart_server": [],
    "async_listener": ["--events", "6"],
    "demo": ["--subscriptions", "2000", "--events", "300", "--address", "auto"],
}
SAYS = {
    "quickstart_server": ["critical s2 {'color': 'gold', 'price': 90}"],
    "async_listener": ["12 deliveries, all acknowledged"],
    "demo": [
        "kill -9 ",
        "(epoch 2, before 1)",
        "batches that differ from the index: 0",
        "nothing was lost",
    ],
}


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"examples.{name}", *arguments]
    environment = {**os.environ, "COLUMNS": "80"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200, check=False)


@pytest.mark.parametrize("name", SMALL)
def test_it_runs(cluster: Joined, name: str) -> None:
    done = run(name, *SMALL[name])
    assert done.returncode == 0, done.stdout + done.stderr
    for part in SAYS[name]:
        assert part in done.stdout, part


def test_the_demo_says_what_it_can_do() -> None:
    done = run("demo", "--help")
    assert done.returncode == 0
    assert "--no-kill" in done.stdout
    assert run("demo", "--events", "0").returncode == 2
