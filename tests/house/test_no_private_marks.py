"""Nothing in the tree tells of the machine it was written on: no absolute home, no private package index."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MARKS = {
    # A slash that begins a path: not one inside a relative path, a URL or a closing tag.
    "a path of one machine": re.compile(r"(?<![\w.<*/~-])/(?:work|root|home/\w+|Users/\w+)(?![\w-])"),
    "a package index": re.compile(
        r"(?:index-url|index_url|find-links|trusted-host)[=\s]+[\"']?(?:https?://|[\w-]+\.[\w.-]+)"
    ),
    "a package registry's host": re.compile(
        r"\b(?:registry|artifactory|nexus|devpi|pypi|mirrors?)[\w-]*(?:\.[\w-]+)+(?::\d+)?/(?:simple|api|repository)\b"
        # A call of the server's own registry, an actor, ends in remote.
        r"|\b(?:registry|artifactory|nexus|devpi)[\w-]*\.[a-z][\w-]*\.(?!remote\b)[a-z]{2,}\b"
    ),
    "a password in a URL": re.compile(r"://[^\s/@:]+:[^\s/@]+@"),
}


def tracked() -> list[Path]:
    """What is in the repository or would be with the next commit."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


def marks(text: str) -> list[str]:
    return [f"{name}: {found[0]!r}" for name, pattern in MARKS.items() for found in pattern.finditer(text)]


def test_no_private_marks() -> None:
    found = []
    for path in tracked():
        content = path.read_bytes()
        if b"\0" not in content:
            found += [f"{path.relative_to(ROOT)}: {mark}" for mark in marks(content.decode())]
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
