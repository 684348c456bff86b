"""A computed attribute is evaluated as long as a subscription tests it, and for readers that see one which does."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.columns.computed import evaluator
from ray_pubsub.index.match_results import read_for
from ray_pubsub.language.truth import value_of_term

EVENTS = [{"a": number, "b": 2, "s": "X"} for number in range(12)]


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """The terms that matching some events takes."""
    names: list[str] = []
    lanes_of, value_of = evaluator._lanes_of, value_of_term

    def counted_lanes(name: str, *rest: Any) -> Any:
        names.append(name)
        return lanes_of(name, *rest)

    def counted_value(term: Any, values: Any) -> Any:
        names.append(str(term))
        return value_of(term, values)

    monkeypatch.setattr(evaluator, "_lanes_of", counted_lanes)
    monkeypatch.setattr(evaluator, "value_of_term", counted_value)

    def of(match: Callable[[], Any]) -> list[str]:
        names.clear()
        match()
        return list(names)

    return of


@pytest.mark.parametrize("events", [EVENTS, EVENTS[:1]], ids=["batch", "single"])
@pytest.mark.parametrize("together", [False, True], ids=["one by one", "together"])
def test_a_term_without_users_is_not_evaluated(
    evaluated: Callable[..., list[str]], events: list[dict[str, Any]], together: bool
) -> None:
    index = MatchIndex()
    texts = ["a + b > 5", "lower(s) = 'x'", "a + b < 3 and lower(s) = 'x'", "a = 1"]
    if together:
        index.add_many(range(4), texts)
    else:
        for number, text in enumerate(texts):
            index.add(number, text)
    assert len(evaluated(lambda: index.match_many(events))) == 2
    index.remove(0)
    assert len(evaluated(lambda: index.match_many(events))) == 2
    index.remove(2)
    assert len(evaluated(lambda: index.match_many(events))) == 1
    index.add(1, "a < 5")  # replaces the last user of lower(s)
    assert evaluated(lambda: index.match_many(events)) == []
    index.add(5, "a + b > 5")
    assert len(evaluated(lambda: index.match_many(events))) == 1
    assert index.match({"a": 9, "b": 1}) == [5]


def test_a_reader_of_an_older_version_has_its_terms(evaluated: Callable[..., list[str]]) -> None:
    index = MatchIndex()
    index.add("old", "a + b > 5")
    view = index._books.engine.view()
    batch = read_for(view, EVENTS, None)
    index.add("old", "a = 1")
    assert len(evaluated(lambda: view.match(batch))) == 1
    assert len(view.match(batch).slots) == 8
    assert index.match_many(EVENTS).counts().sum() == 1
    assert len(view.match(batch).slots) == 8  # the same batch, with and without


def test_many_terms_come_and_go() -> None:
    """Against an index that has only what is left: through blocks, merges, compaction and a file."""
    chance = random.Random(5)
    index, living = MatchIndex(), dict[int, str]()
    for turn in range(60):
        fresh = {
            chance.randrange(400): f"a * {chance.randrange(30)} + b > {chance.randrange(99)} and a != {turn}"
            for _ in range(chance.choice((1, 40)))
        }
        index.add_many(list(fresh), list(fresh.values()))
        living |= fresh
        gone = chance.sample(sorted(living), len(living) * chance.choice((0, 1, 3)) // 4)
        for id in gone:
            index.remove(id)
            del living[id]
        if turn % 10 == 0:
            plain = MatchIndex(engine="scan")
            plain.add_many(list(living), list(living.values()))
            found, expected = index.match_many(EVENTS), plain.match_many(EVENTS)
            assert [sorted(each) for each in found] == [sorted(each) for each in expected]


def test_a_saved_index(tmp_path: Path) -> None:
    index = MatchIndex()
    index.add_many(range(100), [f"a + b > {number % 9}" for number in range(100)])
    index.save(tmp_path / "index")
    again = MatchIndex.load(tmp_path / "index")
    for number in range(1, 100):
        again.remove(number)
    assert again.match({"a": 1, "b": 0}) == [0]
    again.add(200, "a + b = 1")
    again.remove(200)
    assert again.match({"a": 1, "b": 0}) == [0]
