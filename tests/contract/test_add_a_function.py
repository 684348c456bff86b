"""CONTRIBUTING's recipe "Add a function to the language", followed with a toy: a row in the table, and all above knows the function."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.engines.registry import engine_names
from ray_pubsub.errors import ExpressionTypeError, RayPubSubError
from ray_pubsub.language.functions import table
from ray_pubsub.language.parser import parse
from ray_pubsub.language.printer import write
from ray_pubsub.model.values import Kind

TEXTS = {
    "plain": "backwards(name) = 'cba'",
    "negated": "not backwards(name) like 'c%'",
    "nested": "length(backwards(lower(name))) = 3 and price > 5",
    "absent": "backwards(name) is null",
}
EVENTS: list[dict[str, Any]] = [
    {"name": "abc", "price": 6},
    {"name": "xyz", "price": 6},
    {"name": "ABC"},
    {"price": 9},
    {"name": 5},
]
MATCHES = [["plain", "nested"], ["negated", "nested"], ["negated"], ["absent"], ["absent"]]


@pytest.fixture(autouse=True)
def toy() -> Iterator[None]:
    table._define("backwards", "s", Kind.STRING, lambda text: text[::-1])
    yield
    del table.FUNCTIONS["backwards"]


@pytest.mark.parametrize("engine", engine_names())
def test_every_engine_evaluates_it(engine: str, tmp_path: Path) -> None:
    index = MatchIndex(engine)
    index.add_many(list(TEXTS), list(TEXTS.values()))
    index.save(tmp_path / "index")
    for each in (index, pickle.loads(pickle.dumps(index)), MatchIndex.load(tmp_path / "index")):
        assert [each.match(event) for event in EVENTS] == MATCHES
        assert [sorted(found) for found in each.match_many(EVENTS)] == [sorted(found) for found in MATCHES]


def test_it_is_printed_explained_and_checked() -> None:
    for text in TEXTS.values():
        assert parse(write(parse(text))) == parse(text)
    index = MatchIndex()
    index.add("s", TEXTS["plain"])
    assert "'zyx'" in str(index.explain({"name": "xyz"}, "s"))
    with pytest.raises(ExpressionTypeError):
        index.add("wrong", "backwards(5) = 'a'")
    with pytest.raises(RayPubSubError, match="backwards"):
        index.add("misspelt", "backward(name) = 'a'")
