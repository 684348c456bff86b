"""What the documents say about the command exists: its sub-commands and their options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

from actors.command.entry import app

ROOT = Path(__file__).parents[3]
PAGES = sorted({*(ROOT / "docs").glob("*.md"), ROOT / "README.md"} - {ROOT / "docs" / "experiments.md"})
"""All pages but the one about `python -m benchmarks`."""
OTHERS = {"--shm-size"}
"""Options of other programs that stand alone in the text (docker's)."""
GENERAL = {"--help", "-h", "--version", "--install-completion", "--show-completion"}
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
SPAN = re.compile(r"`([^`\n]+)`")
CALL = re.compile(r"\bray-pubsub ([a-z][\w-]*)([^#\n]*)")


def options() -> dict[str, set[str]]:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return {
        name: GENERAL | {each for parameter in command.params for each in (*parameter.opts, *parameter.secondary_opts)}
        for name, command in commands.items()
    }


def unknown(text: str, page: str) -> list[str]:
    """Returns what a page names and the command does not have. Options that stand alone belong to the commands named in their row of a
    table; on the page about HTTP to `serve`; elsewhere to any command."""
    known = options()
    missing: list[str] = []
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        spans = SPAN.findall(line)
        for code in [line] if fenced or line.startswith("    ") else spans:
            for name, rest in CALL.findall(code):
                options_of = known.get(name)
                missing += [name] if options_of is None else [
                    f"{name} {each}" for each in OPTION.findall(rest) if each not in options_of
                ]  # fmt: skip
        named = {span.split()[0] for span in spans} & known.keys() if line.startswith("| `") else set()
        allowed = set.union(*(known[name] for name in named or ({"serve"} if page == "http.md" else known)))
        for span in spans:
            if span.split()[0] in named or span.startswith("--"):
                missing += [each for each in OPTION.findall(span) if each not in allowed | OTHERS]
    return missing


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_option_of_a_page_exists(path: Path) -> None:
    assert unknown(path.read_text(), path.name) == []


def test_what_does_not_exist_is_found() -> None:
    page = "| `start NAME --nothing` | `--background`; `--tokens` |\nWith `--key` and `--keys`.\n    ray-pubsub stop -x --server a  # --y\n"
    assert unknown(page, "command.md") == ["--nothing", "--tokens", "--keys", "stop -x"]
    assert unknown("`--tokens` `--shards`", "http.md") == ["--shards"]


def test_every_command_is_on_its_page() -> None:
    text = (ROOT / "docs" / "command.md").read_text()
    assert [name for name in options() if f"`{name}" not in text] == []
