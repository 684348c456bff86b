"""What the house rules look at: the files of the tree, what each of them imports, and how a broken rule is reported."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("ray_pubsub", "actors", "spark_bridge", "examples", "benchmarks", "tests")


def sources(*folders: str) -> list[Path]:
    """The Python files below these folders of the tree."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def tracked() -> list[Path]:
    """The files that are in the repository, or would be after the next commit."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if listed.returncode == 0:
        found = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    else:  # an unpacked archive
        found = [*ROOT.glob("*"), *sources(*FOLDERS)]
    return sorted(path for path in found if path.is_file())


def shown(path: Path) -> str:
    """A file's name as a reader would type it: relative to the root of the tree."""
    return path.relative_to(ROOT).as_posix()


def module_of(path: Path, root: Path = ROOT) -> str:
    """The module that a file holds: ray_pubsub.model.values."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(path: Path, root: Path = ROOT) -> tuple[str, ...]:
    """Every module that a file imports anywhere in it, functions included; `from a import b` counts as a.b."""
    return tuple(_imports(path, root))


def _imports(path: Path, root: Path) -> Iterator[str]:
    package = path.relative_to(root).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = [*package[: len(package) - node.level + 1]] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def is_in(module: str, packages: Iterable[str]) -> bool:
    """Whether a module is one of these packages or lies in one of them."""
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def report(broken: Iterable[str], rule: str, instead: str) -> str:
    """What a person reads when a rule is broken: where, which rule, and what to do."""
    return "\n".join(["", *(f"  {each}" for each in broken), f"rule: {rule}", f"instead: {instead}"])


def check_rule(broken: Iterable[str], *, rule: str, instead: str) -> None:
    """Fails the test if anything breaks the rule."""
    found = list(broken)
    if found:
        pytest.fail(report(found, rule, instead), pytrace=False)
