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
from docs.draw_pictures import changed
from tests.documents import DOCUMENTS, ROOT, blocks, needs_a_cluster
from tests.house.source_tree import check_rule

MODULES = [
    ray_pubsub.__name__,
    *(module.name for module in pkgutil.walk_packages(ray_pubsub.__path__, f"{ray_pubsub.__name__}.")),
]
# Looking for examples takes as long as running them. Modules of servers are imported only if they have some.
WITH_EXAMPLES = [
    *(name for name in MODULES if ">>> " in inspect.getsource(importlib.import_module(name))),
    *(
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for folder in ("actors", "spark_bridge", "benchmarks", "docs")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if ">>> " in path.read_text()
    ),
]


BLOCKS = [(place, code) for place, code in blocks() if not needs_a_cluster(code)]
"""Those that need one are run by tests/cluster/test_documents.py."""


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


def test_there_are_docstrings_to_test() -> None:
    finder = doctest.DocTestFinder()
    assert sum(len(test.examples) for test in finder.find(ray_pubsub)) > 0


SIDE_BY_SIDE = "docs/coming-from.md"
EXACT = ("README.md", "docs/index.md", "docs/tutorial.md", "docs/engines.md", "docs/importing.md", SIDE_BY_SIDE)
"""Documents whose samples say in comments every line that is printed. Others describe tables and objects in words."""


@pytest.mark.parametrize(("place", "code"), BLOCKS, ids=[place for place, _ in BLOCKS])
def test_documents(
    place: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, place, "exec"), {"__name__": "__main__"})
    shown = capsys.readouterr().out.splitlines()
    if place.startswith(EXACT):
        assert [line for line in shown if line not in code] == []


def test_the_figures_of_the_first_page_are_those_that_are_explained() -> None:
    told = re.findall(r"\d+\.\d+ ms", (ROOT / "README.md").read_text())
    explained = (ROOT / "docs" / "performance.md").read_text()
    assert len(told) >= 5
    assert [figure for figure in told if figure not in explained] == []


def test_every_tool_has_an_example_that_runs() -> None:
    sections = re.split(r"^## ", (ROOT / SIDE_BY_SIDE).read_text(), flags=re.MULTILINE)[1:]
    assert len(sections) == 6
    without = [each.partition("\n")[0] for each in sections if "```python\nimport ray_pubsub\n" not in each]
    assert without == ["Side by side"]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_files_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", path.read_text())
    assert [target for target in targets if not (path.parent / target).exists()] == []


NAMED = re.compile(r"`([\w./]+\.(?:py|lark|toml))`")
BELOW = re.compile(r"^Paths are below `([\w/]+/)`", re.MULTILINE)


def missing_files(text: str) -> list[str]:
    """The files that a document names and that do not exist. A section may say where its paths begin."""
    missing = []
    for section in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        below = BELOW.search(section)
        for name in NAMED.findall(section):
            places = [ROOT / name, *([ROOT / below[1] / name] if below else [])]
            if not any(place.is_file() for place in places):
                missing.append(name)
    return missing


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_files_that_a_document_names_exist(name: str) -> None:
    check_rule(
        missing_files((ROOT / name).read_text()),
        rule=f"{name} names files by their paths: from the root of the tree, or from where the section says",
        instead="follow the file to its new name, or describe what has taken its place",
    )


def test_missing_files_are_found() -> None:
    text = "`Makefile.py`\n## One\n\nPaths are below `tests/house/`.\n`test_docs.py` `nothing.py`\n## Two\n`test_docs.py`\n"
    assert missing_files(text) == ["Makefile.py", "nothing.py", "test_docs.py"]


def test_the_architecture_begins_with_a_drawing_and_a_glossary() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert text.index("```") < text.index("## Words") < text.index("## One subscription")
    words = text[text.index("## Words") : text.index("## Where is")]
    assert 20 <= words.count("\n| ") - 1 <= 30


def test_the_reference_has_every_public_name() -> None:
    listed = set(re.findall(r"^::: (\S+)", (ROOT / "docs/api.md").read_text(), re.MULTILINE))
    for name in ray_pubsub.__all__:
        thing = getattr(ray_pubsub, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert f"{thing.__module__}.{thing.__qualname__}" in listed, name


def test_pictures_are_as_the_library_draws_them() -> None:
    check_rule(
        list(changed()),
        rule="docs/pictures/ holds what docs/draw_pictures.py draws",
        instead="run: python -m docs.draw_pictures",
    )


def test_every_picture_is_shown_somewhere() -> None:
    shown = {
        (path.parent / target).resolve()
        for path in DOCUMENTS
        for target in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", path.read_text())
    }
    kept = {path for folder in ("images", "pictures") for path in (ROOT / "docs" / folder).iterdir()}
    assert sorted(kept - shown) == []


def test_every_page_is_in_the_site() -> None:
    listed = set(re.findall(r"(\w[\w-]*\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert listed >= {path.name for path in (ROOT / "docs").glob("*.md")}
