"""`import ray_pubsub` loads only what matching needs: a cluster, Spark and pandas come when they are asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

MATCHING = """
import ray_pubsub
index = ray_pubsub.MatchIndex()
index.add("s", "model = 'x' and price <= 5 and name like '%y%'")
assert index.match({"model": "x", "price": 5, "name": "xyz"}) == ["s"]
assert index.match_many([{"model": "x"}]).counts().tolist() == [0]
"""


def loaded_by(program: str) -> set[str]:
    code = f"{program}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(finished.stdout.split())


@pytest.mark.parametrize("program", ["import ray_pubsub", MATCHING], ids=["import", "matching dicts"])
def test_what_is_not_loaded(program: str) -> None:
    loaded = loaded_by(program)
    assert "ray_pubsub" in loaded
    assert loaded & {"ray", "pyspark", "pandas", "actors", "spark_bridge"} == set()
