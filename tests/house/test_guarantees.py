"""Every promise of docs/guarantees.md names tests, and the tests exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUARANTEES = ROOT / "docs" / "guarantees.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def missing(text: str) -> list[str]:
    """Tests that are named and do not exist."""
    found = []
    for path, name in NAMED.findall(text):
        source = ROOT / path
        functions = (
            [
                node.name
                for node in ast.walk(ast.parse(source.read_text()))
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
            if source.is_file()
            else []
        )
        if name not in functions:
            found.append(f"{path}::{name}")
    return found


def test_the_named_tests_exist() -> None:
    assert missing(GUARANTEES.read_text()) == []


def test_every_promise_names_a_test() -> None:
    rows = [line for line in GUARANTEES.read_text().splitlines() if line.startswith("| ") and "proved by" not in line]
    assert len(rows) > 15
    assert [row for row in rows if not NAMED.search(row)] == []


@pytest.mark.parametrize("name", ["SECURITY.md", "docs/guarantees.md"])
def test_links_lead_somewhere(name: str) -> None:
    path = ROOT / name
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", path.read_text())
    assert targets
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_what_is_missing_is_found() -> None:
    text = "`tests/house/test_guarantees.py::missing` `tests/house/test_guarantees.py::nothing` `tests/none.py::test_x`"
    assert missing(text) == ["tests/house/test_guarantees.py::nothing", "tests/none.py::test_x"]
