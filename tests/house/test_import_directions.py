"""Who may import whom (STYLE.md): the right imports the left only, and nothing below the actors knows Ray or Spark."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# errors ← settings, model ← language ← columns ← engines(+kernels) ← index ← priority ← sharding
LAYERS = ["errors", "settings", "model", "language", "columns", "engines", "index", "priority", "sharding"]
# Outside the line: what each of these may import. What waits to be delivered need not know what it is.
BESIDE = {"delivery": {"errors", "settings"}}
# Kernels are an island: arrays in, arrays out. What has no behaviour is allowed: annotations.
KERNELS_MAY_IMPORT = {
    *{"__future__", "collections", "typing", "llvmlite", "numba", "numpy"},
    *{"contextlib", "fcntl", "pathlib"},  # compiling_once
}
BAD_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers"}


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Every module that a file imports anywhere in it, functions included; `from a import b` counts as a.b."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = [*package[: len(package) - node.level + 1]] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def top(module: str) -> str:
    return module.partition(".")[0]


def layer(module: str) -> str | None:
    """The part of the library that a module is in, None if it is not of the library."""
    parts = module.split(".")
    return parts[1] if parts[0] == "ray_pubsub" and len(parts) > 1 else None


def of_files(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=[str(path.relative_to(ROOT)) for path in paths])


def named(path: Path) -> str:
    """The module of a file: ray_pubsub.model.values."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


LIBRARY = sources("ray_pubsub")


@of_files(LIBRARY)
def test_the_library_knows_no_cluster(path: Path) -> None:
    """Not even inside a function; only `start` and `connect` are forwarded, and not before somebody asks for them."""
    forwarded = {"actors"} if path == ROOT / "ray_pubsub" / "__init__.py" else set()
    known = {top(module) for module in imports(path)} & {"ray", "pyspark", "actors", "spark_bridge", "examples"}
    assert known == forwarded


def test_the_library_alone_imports_no_cluster() -> None:
    program = "import sys, ray_pubsub; print([name for name in ('ray', 'pyspark', 'actors') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


@of_files([path for path in LIBRARY if layer(named(path)) in LAYERS])
def test_layers_import_only_what_is_below(path: Path) -> None:
    own = layer(named(path))
    assert own is not None
    rank = LAYERS.index(own)
    for module in imports(path):
        other = layer(module)
        if top(module) == "ray_pubsub":
            assert other in {*LAYERS[: rank + 1], "kernels"}, f"{own} imports {module}"


@of_files([path for path in LIBRARY if layer(named(path)) in BESIDE])
def test_what_stands_beside_the_layers_imports_only_what_it_may(path: Path) -> None:
    own = layer(named(path))
    assert own is not None
    for module in imports(path):
        if top(module) == "ray_pubsub":
            assert layer(module) in {own, *BESIDE[own]}, f"{own} imports {module}"


@pytest.mark.parametrize("low", ["errors", "settings", "model", "language"])
def test_what_is_below_the_engines_needs_no_kernels(low: str) -> None:
    files = [path for path in LIBRARY if layer(named(path)) == low]
    assert files
    assert {layer(module) for path in files for module in imports(path)} & {"kernels"} == set()


@of_files([path for path in LIBRARY if layer(named(path)) == "kernels"])
def test_kernels_are_islands(path: Path) -> None:
    for module in imports(path):
        assert top(module) in KERNELS_MAY_IMPORT or layer(module) == "kernels", module
        assert top(module) != "collections" or module.startswith("collections.abc."), module


def test_every_part_of_the_library_has_its_place() -> None:
    parts = {layer(named(path)) for path in LIBRARY} - {None}
    assert parts - {*LAYERS, *BESIDE, "kernels", "workloads"} == set()


@of_files([*LIBRARY, *sources("actors")])
def test_only_the_bridge_imports_spark(path: Path) -> None:
    assert "pyspark" not in {top(module) for module in imports(path)}


@of_files(sources("actors"))
def test_actors_know_nothing_above_them(path: Path) -> None:
    assert {top(module) for module in imports(path)} & {"spark_bridge", "examples"} == set()


def test_no_file_is_a_drawer() -> None:
    folders = ("ray_pubsub", "actors", "spark_bridge", "examples", "benchmarks", "tests")
    paths = [path.relative_to(ROOT) for folder in folders for path in sources(folder)]
    parts = [(path, part) for path in paths for part in path.with_suffix("").parts]
    assert [str(path) for path, part in parts if BAD_NAMES & set(part.lower().split("_"))] == []


def test_imports_are_found_wherever_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules above rest on `imports`; a rule that sees nothing always holds."""
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    path = tmp_path / "ray_pubsub" / "model" / "example.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "import numpy as np, ray.data\n"
        "from ray_pubsub import errors\n"
        "from . import values\n"
        "from ..language.tree import Tree\n"
        "def late():\n    from pyspark.sql import SparkSession\n"
    )
    assert sorted(imports(path)) == [
        "numpy",
        "pyspark.sql.SparkSession",
        "ray.data",
        "ray_pubsub.errors",
        "ray_pubsub.language.tree.Tree",
        "ray_pubsub.model.values",
    ]
