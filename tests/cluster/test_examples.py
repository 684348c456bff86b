"""The examples that start a server run, small, and end with nothing lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from actors.cluster.joining import Joined

ROOT = Path(__file__).parents[2]
SMALL = {
    "quickstart_server": [],
    "async_listener": ["--events", "6"],
    "mine_monitoring": ["--readings", "60", "--address", "auto"],
    "webhook_routing": ["--orders", "40", "--address", "auto"],
}
SAYS = {
    "quickstart_server": ["critical s2 {'color': 'gold', 'price': 90}"],
    "async_listener": ["12 deliveries, all acknowledged"],
    "mine_monitoring": ["what the control room sees first\n  evacuate ", "within 2 s: "],
    "webhook_routing": ["after 2 requests that it refused", "; missing: 0"],
}


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"examples.{name}", *arguments]
    environment = {**os.environ, "COLUMNS": "80"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("name", SMALL)
def test_it_runs(cluster: Joined, name: str) -> None:
    done = run(name, *SMALL[name])
    assert done.returncode == 0, done.stdout + done.stderr
    for part in SAYS[name]:
        assert part in done.stdout, part
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []


def test_the_demo_loses_nothing_and_fits_a_terminal(cluster: Joined) -> None:
    command = [str(Path(sys.executable).with_name("ray-pubsub")), "demo", "--subscriptions", "2000", "--events", "300"]
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(
        [*command, "--address", "auto"], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for part in ("kill -9 ", "by process ", "batches that differ: 0", "nothing was lost", "what you saw", "try next"):
        assert part in done.stdout, part
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stderr == ""  # what Ray says of the killed worker is in its log
