"""Plain technical English: words that make a reader stop and read again do not occur, in code, comments or documents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house.source_tree import check_rule, shown, tracked

WORDS = {
    r"anew": "again",
    r"(?:is|are|was|were|be|been) told": "is reported, is notified, receives",
    r"so many": "at most N, that number of",
    r"whoever": "name who: the caller, the subscriber",
    r"thereby": "start a second sentence",
}
PATTERNS = {re.compile(rf"\b{word}\b", re.IGNORECASE): better for word, better in WORDS.items()}


def hard_words(text: str) -> list[str]:
    return [
        f"{number}: {found[0]!r} ({better})"
        for number, line in enumerate(text.splitlines(), 1)
        for pattern, better in PATTERNS.items()
        for found in pattern.finditer(line)
    ]


def test_hard_words_do_not_occur() -> None:
    paths = [path for path in tracked() if path.suffix in {".py", ".md", ".toml", ".lark"} or path.name == "Makefile"]
    read = [path for path in paths if path != Path(__file__)]
    check_rule(
        [f"{shown(path)}:{found}" for path in read for found in hard_words(path.read_text())],
        rule="a sentence is understood on the first reading; these words rarely allow that",
        instead="use the words in parentheses, or write the sentence again with a subject and a verb",
    )


@pytest.mark.parametrize("text", ["matched anew", "Whoever asks", "the caller is told", "so many events"])
def test_they_are_found(text: str) -> None:
    assert hard_words(f"first line\n{text}\n")[0].startswith("2: ")


@pytest.mark.parametrize("text", ["a new one", "he told", "so much"])
def test_plain_words_are_not(text: str) -> None:
    assert hard_words(text) == []
