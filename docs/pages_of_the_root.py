"""A hook of mkdocs: documents in the root of the tree are pages of the site too, and links between them and docs/ lead to pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NAMES = ("SECURITY.md", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
LINK = re.compile(r"\]\((?:\.\./|docs/)([^)]+)\)")


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for name in NAMES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """In the tree `docs/x.md` and `../SECURITY.md` are right; in the site all of them are side by side."""
    if "/" in page.file.src_uri:
        return markdown
    return LINK.sub(r"](\1)", markdown)
