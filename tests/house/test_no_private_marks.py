"""Nothing in the tree tells of the machine it was written on: no absolute home, no private package index."""

from __future__ import annotations

import re

import pytest

from tests.house.source_tree import shown, tracked

MARKS = {
    # A slash that begins a path: not one inside a relative path, a URL or a closing tag.
    "a path of one machine": re.compile(r"(?<![\w.<*/~-])/(?:work|root|home/\w+|Users/\w+)(?![\w-])"),
    "a package index": re.compile(
        r"(?:index-url|index_url|find-links|trusted-host)[=\s]+[\"']?(?:https?://|[\w-]+\.[\w.-]+)"
    ),
    "a package registry's host": re.compile(
        r"\b(?:registry|artifactory|nexus|devpi|pypi|mirrors?)[\w-]*(?:\.[\w-]+)+(?::\d+)?/(?:simple|api|repository)\b"
        # The server's own registry: a package of actors, and an actor whose calls end in remote.
        r"|(?<!actors\.)\b(?:registry|artifactory|nexus|devpi)[\w-]*\.[a-z][\w-]*\.(?!remote\b)[a-z]{2,}\b"
    ),
    "a password in a URL": re.compile(r"://[^\s/@:]+:[^\s/@]+@"),
}


def marks(text: str) -> list[str]:
    return [f"{name}: {found[0]!r}" for name, pattern in MARKS.items() for found in pattern.finditer(text)]


def test_no_private_marks() -> None:
    found = []
    for path in tracked():
        content = path.read_bytes()
        if b"\0" not in content:
            found += [f"{shown(path)}: {mark}" for mark in marks(content.decode())]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "see " + "/wo" + "rk/main/file.py",
        "cd " + "/ro" + "ot",
        "HOME=" + "/ho" + "me/somebody/x",
        "--index" + "-url https://packages.example.com/x",
        "https://pypi" + ".example.com/simple",
        "registry" + ".example.com",
        "https://user" + ":secret@example.com",
    ],
)
def test_marks_are_found(text: str) -> None:
    assert marks(text) != []


@pytest.mark.parametrize(
    "text",
    [
        "docs/workloads.md",
        "tests/work/file",
        "</root>",
        "https://example.com/work",
        "--no-emit-index-url --no-emit-find-links",
        "and/or, km/h, ./work, ~/work",
        "registry.subscribe(x)",
        "the registry. The next sentence",
    ],
)
def test_harmless_text(text: str) -> None:
    assert marks(text) == []
