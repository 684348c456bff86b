"""The examples in docstrings and in the documents run and do what they say."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import ray_pubsub

ROOT = Path(__file__).parents[2]
DOCUMENTS = [path for path in (ROOT / "README.md", ROOT / "ARCHITECTURE.md") if path.exists()]
MODULES = [
    ray_pubsub.__name__,
    *(module.name for module in pkgutil.walk_packages(ray_pubsub.__path__, f"{ray_pubsub.__name__}.")),
]
# Looking for examples takes as long as running them.
WITH_EXAMPLES = [name for name in MODULES if ">>> " in inspect.getsource(importlib.import_module(name))]


def blocks() -> list[tuple[str, str]]:
    """The Python blocks that a reader could paste: those that import the library themselves."""
    found = []
    for path in DOCUMENTS:
        text = path.read_text()
        for block in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            on_a_cluster = re.search(r"ray_pubsub\.(start|connect)\(", block[1])  # tests/cluster/test_documents.py
            if block[1].startswith("import ray_pubsub") and not on_a_cluster:
                line = text.count("\n", 0, block.start()) + 2
                # Line numbers in a traceback are those of the document.
                found.append((f"{path.name}:{line}", "\n" * (line - 1) + block[1]))
    return found


BLOCKS = blocks()


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


def test_there_are_docstrings_to_test() -> None:
    finder = doctest.DocTestFinder()
    assert sum(len(test.examples) for test in finder.find(ray_pubsub)) > 0


@pytest.mark.parametrize(("place", "code"), BLOCKS, ids=[place for place, _ in BLOCKS])
def test_documents(place: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, place, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_files_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", path.read_text())
    assert [target for target in targets if not (ROOT / target).exists()] == []
