"""What one text may cost is bounded by its length, not by what it would be if it were multiplied out: sizes are counted, not time. Others
need not wait for it."""

from __future__ import annotations

from typing import Any

import pytest

import ray_pubsub
from benchmarks.rules.largest import LARGEST, MOST_LOCKED, MOST_SECONDS, TimedLock, timed
from ray_pubsub.columns.texts.text_compiler import CompiledTexts, compile_texts
from ray_pubsub.index.bulk.text_batch import TextBatch, are_worth_compiling
from ray_pubsub.kernels.texts.normal_form import MOST_EFFORT
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.settings import Limits


def joined(word: str, parts: list[str]) -> str:
    return "(" + f" {word} ".join(parts) + ")"


LARGE = {
    "alternatives of three tests": joined(
        "or", [f"(a{number % 50} = {number} and b < {number} and c = 'v{number}')" for number in range(3000)]
    ),
    "a set": "x in " + joined(",", list(map(str, range(99_000)))).replace(" ,", ","),
    "a set of strings but for some": "x not in " + joined(",", [f"'s{number}'" for number in range(60_000)]),
    "patterns that all must match": joined("and", [f"x like '%abc{number}%'" for number in range(9000)]),
    "patterns times patterns": joined("or", [f"x like '%abc{number}%'" for number in range(1000)])
    + " and not "
    + joined("or", [f"x like '%z{number}%'" for number in range(1000)]),
    "ranges of strings": joined("or", [f"x between 'a{number:05}' and 'a{number:05}z'" for number in range(2000)]),
    "disjunctions": joined(
        "and", [joined("or", [f"a{place} = {number}" for place in range(9)]) for number in range(1000)]
    ),
    "disjunctions of conjunctions of disjunctions": joined(
        "and",
        [
            joined("or", [f"(a{place} = 1 and (b{place} = 2 or c{place} = {number}))" for place in range(9)])
            for number in range(300)
        ],
    ),
}


def size(compiled: CompiledTexts) -> int:
    """Tests, with the patterns that each of them has."""
    table = compiled.table
    return table.test_count + table.count + len(table.opaque.patterns)


@pytest.mark.parametrize("name", LARGE)
def test_what_a_text_becomes_is_bounded(name: str) -> None:
    text = LARGE[name]
    compiled = compile_texts([text], Limits())
    assert not len(compiled.left), "the kernels read it"
    assert size(compiled) <= max(len(text), 2 * MOST_EFFORT)


def test_a_long_text_is_not_parsed_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: ShapeCache, text: str) -> None:
        raise AssertionError("parsed in Python")

    monkeypatch.setattr(ShapeCache, "parse", refuse)
    index = ray_pubsub.MatchIndex()
    index.add("a", LARGE["alternatives of three tests"])
    assert index.match({"a7": 7, "b": 6, "c": "v7"}) == ["a"]
    assert index.match({"a7": 7, "b": 7, "c": "v7"}) == []


def test_a_few_long_texts_are_worth_the_kernels() -> None:
    """In a process that has not loaded them, too: in Python each would take seconds."""
    long = joined("or", [f"a{number} = {number}" for number in range(500)])
    assert are_worth_compiling([long])
    assert are_worth_compiling([long[:3900]] * 15)
    assert not are_worth_compiling(["a = 1", "b = 2"])


@pytest.mark.parametrize("text", LARGEST.values(), ids=list(LARGEST))
def test_others_need_not_wait_for_it(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is compiled before the index is locked. The time is that of this thread on a processor, to which other processes add nothing;
    `python -m benchmarks rules --groups largest` compares the answers too."""
    ray_pubsub.MatchIndex().add("large", text)  # compiles kernels
    index = ray_pubsub.MatchIndex(merges="background")
    index.add("first", "x = 1")
    lock = index._writing = TimedLock(index._writing)  # type: ignore[assignment]
    compiled: list[bool] = []
    for owner, name in ((TextBatch, "of_one"), (ShapeCache, "parse")):
        compile_text = getattr(owner, name)

        def watched(*arguments: Any, compile_text: Any = compile_text, **options: Any) -> Any:
            compiled.append(lock.is_held)
            return compile_text(*arguments, **options)

        monkeypatch.setattr(owner, name, watched)
    seconds = timed(lambda: index.add("large", text))
    assert compiled and not any(compiled)
    assert 0 < lock.longest < MOST_LOCKED
    assert seconds < MOST_SECONDS
