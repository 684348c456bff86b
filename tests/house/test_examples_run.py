"""Every example runs, small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = {"wish_lists": ["--subscriptions", "2000", "--events", "20"]}


def test_no_example_is_left_out() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} - {"__init__"} == set(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_it_runs(name: str) -> None:
    command = [sys.executable, "-m", f"examples.{name}", *SMALL[name]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "after remove: False" in done.stdout
