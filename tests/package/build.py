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
print(getattr(build_meta, f"build_{sys.argv[2]}")(sys.argv[1]))
"""


def build(into: Path, work: Path, *kinds: str) -> list[Path]:
    """`kinds`: wheel, sdist. Needs setuptools in this Python, and no network."""
    source = work / "source"
    for part in PARTS:
        shutil.copytree(ROOT / part, source / part, ignore=shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc"))
    for name in FILES:
        shutil.copy(ROOT / name, source / name)
    into.mkdir(parents=True, exist_ok=True)
    return [_built(kind, into, source) for kind in kinds]


def _built(kind: str, into: Path, source: Path) -> Path:
    """In a process of its own: a second build in the same one says that it made a file, and did not."""
    command = [sys.executable, "-c", BUILD, str(into), kind]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return into / done.stdout.splitlines()[-1]
