"""The documents that users read, and the Python in them that they could paste."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["DOCUMENTS", "ROOT", "blocks", "extra_of", "fenced", "needs_a_cluster"]

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    """Those that import the library themselves: the place, and the code, in which lines have the numbers of the document."""
    found = []
    for path in DOCUMENTS:
        text = path.read_text()
        for block in BLOCK.finditer(text):
            if block[1].startswith("import ray_pubsub"):
                line = text.count("\n", 0, block.start()) + 2
                found.append((f"{path.relative_to(ROOT)}:{line}", "\n" * (line - 1) + block[1]))
    return found


def fenced(name: str, kind: str = "") -> list[str]:
    """All blocks of this kind in a document, such as "sh"; without a kind those that name none."""
    parts = re.split(r"^```(.*)\n", (ROOT / name).read_text(), flags=re.MULTILINE)
    return [text for named, text in zip(parts[1::4], parts[2::4], strict=True) if named == kind]


def needs_a_cluster(code: str) -> bool:
    return re.search(r"ray_pubsub\.(start|connect)\(", code) is not None


def extra_of(code: str) -> str | None:
    """What a sample needs beside the core."""
    if needs_a_cluster(code):
        return "server"
    return "sigma" if "from_sigma" in code else None
