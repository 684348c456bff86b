"""Every example of docs/language.md does what it says."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.language.building.calls import HIDDEN
from ray_pubsub.language.building.holding_calls import HOLDING
from ray_pubsub.language.functions.moments import date_parts
from ray_pubsub.language.functions.table import FUNCTIONS, SYNONYMS
from ray_pubsub.language.parser import parse
from ray_pubsub.language.terms import NOW
from ray_pubsub.language.truth import truth
from ray_pubsub.model.dict_events import flatten
from ray_pubsub.model.values import Kind, Value, microseconds

TEXT = (Path(__file__).parents[3] / "docs" / "language.md").read_text()
EXAMPLE = re.compile(r"^\| [^\n]*?\| `([^`]+)` \| `(\{[^`]*\})` \| (true|false|unknown) \|$", re.MULTILINE)
ANSWERS = {"true": True, "false": False, "unknown": None}
EXAMPLES = [(found[1], found[2], ANSWERS[found[3]]) for found in EXAMPLE.finditer(TEXT)]


def read(document: str) -> dict[str, Any]:
    """The event; texts that look like moments are."""
    event = json.loads(document)
    return {
        name: datetime.datetime.fromisoformat(value) if isinstance(value, str) and value[:4] == "2024" else value
        for name, value in event.items()
    }


@pytest.mark.parametrize(("text", "document", "answer"), EXAMPLES)
def test_examples(text: str, document: str, answer: bool | None) -> None:
    event = read(document)
    values = flatten(event)
    values[NOW] = Value(Kind.TIMESTAMP, microseconds(datetime.datetime.now(datetime.UTC)))
    assert truth(parse(text), values) is answer
    index = MatchIndex()
    index.add("s", text)
    assert index.match(event) == (["s"] if answer else [])


def test_every_function_has_an_example() -> None:
    names = {name for name in {*FUNCTIONS, *HOLDING} if name[0].isalpha()} - HIDDEN
    conditions = " ".join(text for text, _, _ in EXAMPLES)
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\(", conditions)] == []
    assert [part for part in date_parts(False) if not re.search(rf"\b{part}\b", conditions)] == []


def test_every_synonym_is_listed() -> None:
    assert [name for name in sorted(SYNONYMS) if not re.search(rf"\b{name}\b", TEXT)] == []
