"""What matches in one process works where Ray is not installed, and what needs Ray says which extra has it."""

from __future__ import annotations

import subprocess
import sys
import tomllib

from tests.house.source_tree import ROOT

PROGRAM = """
import sys
sys.modules["ray"] = None  # as if it were not installed
import pydoc
import ray_pubsub
index = ray_pubsub.MatchIndex()
index.add("a", "x = 1")
print(index.match({"x": 1}), ray_pubsub.PriorityRules(["low", "high"]).priority({"x": 1}))
for name in ("start", "connect", "Server"):
    try:
        getattr(ray_pubsub, name)
    except ImportError as error:
        print(type(error).__name__, error)
try:
    from ray_pubsub import start
except ray_pubsub.RayPubSubError as error:
    print(error.extra)
print("MatchIndex" in pydoc.render_doc(ray_pubsub), "start" in dir(ray_pubsub))
"""


def test_the_library_works_without_ray() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    missing = "MissingExtraError Ray, on which servers run, is not installed; install it with: pip install 'ray-pubsub[server]'"
    assert done.stdout.splitlines() == ["['a'] low", missing, missing, missing, "server", "True False"]


def test_only_extras_name_ray() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not any(each.startswith(("ray", "pyspark")) for each in project["dependencies"])
    assert {"server", "spark", "metrics"} <= project["optional-dependencies"].keys()
