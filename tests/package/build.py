"""Builds the wheel and the sdist in a copy of the tree, so that nothing is left behind in it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("ray_pubsub", "actors", "spark_bridge")
FILES = ("pyproject.toml", "README.md", "LICENSE", "pyspark_ray_pubsub.py", "ray_pubsub_http.py")
BUILD = """
import sys
from setuptools import build_meta
for kind in sys.argv[2:]:
    print(getattr(build_meta, f"build_{kind}")(sys.argv[1]))
"""


def build(into: Path, work: Path, *kinds: str) -> list[Path]:
    """`kinds`: wheel, sdist. Needs setuptools in this Python, and no network."""
    source = work / "source"
    for part in PARTS:
        shutil.copytree(ROOT / part, source / part, ignore=shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc"))
    for name in FILES:
        shutil.copy(ROOT / name, source / name)
    into.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(into), *kinds], cwd=source, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [into / line for line in done.stdout.splitlines() if line.endswith((".whl", ".tar.gz"))]
