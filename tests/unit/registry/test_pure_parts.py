"""What decides and what stores needs no cluster: none of it imports Ray, directly or through something else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PURE = [
    *sorted(f"ray_pubsub.sharding.{path.stem}" for path in (ROOT / "ray_pubsub" / "sharding").glob("*.py")),
    *sorted(f"actors.registry.store.{path.stem}" for path in (ROOT / "actors" / "registry" / "store").glob("*.py")),
    "actors.registry.group_commit",
]


def test_ray_is_not_imported() -> None:
    program = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)\nprint(*sys.modules)"
    names = [name.removesuffix(".__init__") for name in PURE]
    finished = subprocess.run(
        [sys.executable, "-c", program, *names], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = set(finished.stdout.split())
    assert set(names) <= loaded
    assert [name for name in loaded if name.partition(".")[0] in {"ray", "pyspark"}] == []


@pytest.mark.parametrize("module", ["actors.registry.store.store", "ray_pubsub.sharding.placement"])
def test_the_list_is_not_empty(module: str) -> None:
    assert module in PURE
