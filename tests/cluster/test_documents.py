"""The server's examples in README run, one after the other, as a reader would paste them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ray_pubsub
from actors.cluster import Joined
from ray_pubsub.errors import UnknownServerError

ROOT = Path(__file__).parents[2]


def blocks() -> list[tuple[str, str]]:
    """Those that the tests of the house leave out because they need a cluster."""
    text = (ROOT / "README.md").read_text()
    found = []
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if block[1].startswith("import ray_pubsub") and re.search(r"ray_pubsub\.(start|connect)\(", block[1]):
            line = text.count("\n", 0, block.start()) + 2
            found.append((f"README.md:{line}", "\n" * (line - 1) + block[1]))
    return found


def test_they_do_what_they_say(
    cluster: Joined, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    listed = blocks()
    assert len(listed) == 3
    for place, code in listed:
        exec(compile(code, place, "exec"), {"__name__": "__main__"})
    said = capsys.readouterr().out
    for part in (
        "PublishResult(2 matches of 2 events)",
        "['s1'] ['desk-7', 'desk-7'] ['low', 'critical']",
        "critical s1 {'model': 'iphone5s', 'price': 90}\nlow s1 {'model': 'iphone5s', 'price': 550}",
        "['price < 9']",
        "✗ price <= 580",
        "server 'default'",
    ):
        assert part in said, part
    with pytest.raises(UnknownServerError):  # the last one stops it
        ray_pubsub.connect()
