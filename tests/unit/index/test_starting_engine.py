"""While kernels are not compiled, a small index answers without them, and the same; then it moves to its engine."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from ray_pubsub import MatchIndex, PriorityRules
from ray_pubsub.index import starting_engine
from ray_pubsub.index.bulk import text_batch
from ray_pubsub.index.segmented_index import SegmentedIndex
from ray_pubsub.index.starting_engine import StartingEngine
from ray_pubsub.kernels import readiness
from ray_pubsub.model.events import read_events
from ray_pubsub.priority import rule_maintenance
from ray_pubsub.priority.instantiation.boxes import Refusal
from ray_pubsub.warming.background import offer_background

EVENTS = [{"a": number % 7, "b": number % 5, "s": f"x{number % 3}"} for number in range(40)]


class Compiler:
    """Stands for the process that compiles."""

    def __init__(self) -> None:
        self.running = True

    def __call__(self, marker: Path) -> bool:
        return self.running


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Compiler]:
    monkeypatch.delenv(readiness.VARIABLE)
    monkeypatch.setattr(readiness, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(readiness, "marker_path", lambda: tmp_path / "all-compiled")
    monkeypatch.setattr(readiness, "_are_some_compiled", lambda: False)
    found = Compiler()
    readiness.set_compiler(found)
    yield found
    offer_background()


def is_starting(index: MatchIndex) -> bool:
    engine = index._books.engine
    return isinstance(engine, StartingEngine) and engine._scan is not None


def text(random: Random) -> str:
    return f"a {random.choice(['=', '>', '!='])} {random.randint(0, 7)} or s = 'x{random.randint(0, 4)}' and b < {random.randint(0, 5)}"


@pytest.mark.parametrize("seed", range(6))
def test_answers_are_those_of_the_scan_throughout(compiler: Compiler, seed: int) -> None:
    random = Random(seed)
    index, model = MatchIndex(), MatchIndex("scan")
    ready_at = random.randint(5, 60)
    for step in range(70):
        identity: str | int = random.randint(0, 20) if random.random() < 0.5 else f"s{random.randint(0, 10)}"
        kind = random.random()
        ids = [random.randint(0, 30) for _ in range(5)]
        texts = [text(random) for _ in range(5)]
        for each in (index, model):
            if kind < 0.5:
                each.add(identity, texts[0])
            elif kind < 0.7:
                each.remove(identity)
            elif kind < 0.85:
                each.add_many(ids, texts, removing=[identity])
            else:
                each.remove_many(ids)
        if step == ready_at:
            assert is_starting(index)
            compiler.running = False
        assert len(index) == len(model) and list(index) == list(model) and (identity in index) == (identity in model)
        event = random.choice(EVENTS)
        assert index.match(event) == model.match(event)
        found, expected = index.match_many(EVENTS[:5]), model.match_many(EVENTS[:5])
        assert [sorted(found[place], key=str) for place in range(5)] == [
            sorted(expected[place], key=str) for place in range(5)
        ]
    assert not is_starting(index)


def test_it_moves_when_kernels_are_ready(compiler: Compiler, tmp_path: Path) -> None:
    index = MatchIndex()
    for number in range(20):  # one by one: where kernels are loaded, many texts at once are compiled by them
        index.add(number, f"a = {number % 7}")
    assert is_starting(index) and index.stats().blocks[0].engine == "scan"
    assert index.explain({"a": 3}).segments[0].engine == "scan"
    assert index.match({"a": 3}) == [3, 10, 17]
    (tmp_path / "all-compiled").touch()
    assert index.match({"a": 3}) == [3, 10, 17] and not is_starting(index)
    assert isinstance(MatchIndex()._books.engine, SegmentedIndex)


def test_after_a_change_of_the_sources_kernels_are_compiled_where_they_are_used(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(readiness, "_are_some_compiled", lambda: True)
    assert readiness.are_ready()
    readiness.set_compiler(compiler)
    readiness.lock_path(tmp_path / "all-compiled").touch()  # compiling all was begun, and not ended
    assert not readiness.are_ready()


def test_a_large_index_does_not_wait(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting_engine, "FEW", 10)
    index = MatchIndex()
    for number in range(10):
        index.add(number, f"a = {number % 7}")
    assert is_starting(index)
    index.add(10, "a = 3")
    assert not is_starting(index) and index.match({"a": 3}) == [3, 10]


def test_what_takes_longer_than_compiling_is_not_scanned(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting_engine, "MOST_SECONDS", 35 * 10 * starting_engine.SCANNED)
    index = MatchIndex()
    for number in range(10):
        index.add(number, f"a = {number % 7}")
    assert [len(index.match_many(EVENTS[:30])[2]), index.match({"a": 3})] == [2, [3]] and is_starting(index)
    found = index.match_many(EVENTS[:30])
    assert [len(found[place]) for place in (1, 3, 5)] == [2, 1, 1] and not is_starting(index)


def test_a_view_is_scanned_if_subscriptions_were_changed_since(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting_engine, "MOST_SECONDS", 0.0)
    index = MatchIndex()
    index.add("x", "a = 1")
    catalogue, engine = index._books
    before = engine.view()
    batch = read_events([{"a": 1}], None, before.attributes)
    index.add("y", "b is null")  # a match of the batch, which was read before anybody asked for b
    assert catalogue.ids(before.match(batch).slots).tolist() == ["x"] and is_starting(index)
    assert index.match({"a": 1, "b": 1}) == ["x"] and not is_starting(index)


def test_texts_are_parsed_in_python_until_kernels_are_ready(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_batch, "kernels_are_loaded", lambda: False)
    texts = [f"a = {number % 7}" for number in range(2000)]
    assert not text_batch.are_worth_compiling(texts) and not text_batch.is_long("a = 1" + " " * 10_000)
    index = MatchIndex()
    assert index.add_many(range(2000), texts).added == 2000 and is_starting(index)
    assert index.match({"a": 3}) == list(range(3, 2000, 7)) and is_starting(index)
    assert text_batch.are_worth_compiling(["a = 1" + " " * 1_000_000] * 20)
    compiler.running = False
    assert text_batch.are_worth_compiling(texts) and text_batch.is_long("a = 1" + " " * 10_000)


def test_intervals_and_files_need_the_engine(compiler: Compiler, tmp_path: Path) -> None:
    index = MatchIndex()
    index.add("x", "b = 1")
    index.add_predicates(pa.table({"id": ["y"], "attribute": ["a"], "low": [1], "high": [2]}))
    assert not is_starting(index) and index.match({"a": 1, "b": 1}) == ["x", "y"]
    other = MatchIndex()
    other.add("x", "b = 1")
    other.save(tmp_path / "index")
    for loaded in (MatchIndex.load(tmp_path / "index"), pickle.loads(pickle.dumps(other))):
        assert loaded.match({"b": 1}) == ["x"] and loaded.expression("x") == "b = 1"


@pytest.mark.parametrize("confirm", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_levels_are_the_same_throughout(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, seed: int, confirm: bool
) -> None:
    random = Random(seed)
    levels = ["low", "high", "critical"]
    rules = PriorityRules(levels, confirm=confirm)
    model: dict[int, tuple[str, MatchIndex]] = {}
    ready_at = random.randint(5, 40)
    for step in range(50):
        number = random.randint(0, 15)
        if random.random() < 0.7:
            level, expression = random.choice(levels), text(random)
            rules.add(number, level, expression)
            model[number] = level, MatchIndex("scan")
            model[number][1].add(number, expression)
        else:
            assert rules.remove(number) == (model.pop(number, None) is not None)
        if step == ready_at:
            assert set(rules.stats().exact_reasons) <= {Refusal.STARTING}
            compiler.running = False
        expected = [
            max((levels.index(level) for level, index in model.values() if index.match(event)), default=0)
            for event in EVENTS
        ]
        found = [levels.index(each) for each in rules.priorities(EVENTS)]
        assert found == expected if confirm or step < ready_at else all(map(int.__ge__, found, expected))
    assert Refusal.STARTING not in rules.stats().exact_reasons


def test_rules_need_kernels_if_they_are_many_or_tables(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_maintenance, "FEW", 10)
    rules = PriorityRules(["low", "high"])
    for number in range(10):
        rules.add(number, "high", f"a = {number}")
    assert rules.stats().exact_rules == 10
    rules.add(10, "high", "a = 10")
    assert rules.stats().exact_rules == 0 and rules.priorities([{"a": 3}, {"a": 30}]) == ["high", "low"]
    other = PriorityRules(["low", "high"])
    other.add("x", "high", "b = 1")
    assert other.stats().exact_rules == 1
    other.add_predicates(pa.table({"id": ["y"], "level": ["high"], "attribute": ["a"], "low": [1], "high": [2]}))
    assert other.stats().exact_rules == 0 and other.priorities([{"a": 1}, {"b": 1}, {"b": 2}]) == [
        "high",
        "high",
        "low",
    ]


PROGRAM = """
import ray_pubsub
from ray_pubsub.kernels import readiness
readiness.set_compiler(lambda marker: True)
index = ray_pubsub.MatchIndex()
for number in range(100):
    index.add(number, f"model = 'm{number % 10}' and price <= {number} and colour in ('red', 'blue')")
assert index.match({"model": "m3", "price": 50, "colour": "red"}) == [53, 63, 73, 83, 93]
index.remove(53)
events = [{"model": "m3", "price": 50, "colour": "red"}] * 3
assert index.match_many(events)[2] == [63, 73, 83, 93]
lines = b'{"model": "m3", "price": 50, "colour": "red"}\\n{"model": }\\n' * 20
found = index.match_json(lines)
assert found[38] == [63, 73, 83, 93] and len(found.errors) == 20
rules = ray_pubsub.PriorityRules(["low", "high", "critical"])
for number in range(20):
    rules.add(number, "high", f"price < {number} and model in ('m3', 'm{number}')")
assert rules.add_many(["a", "b"], ["critical"] * 2, ["price < 3", "price <"]).added == 1
rules.remove(19)
assert rules.priorities([{"price": 2}, {"price": 17, "model": "m3"}, {"price": 18, "model": "m3"}]) == ["critical", "high", "low"]
"""


def test_a_first_answer_compiles_nothing(tmp_path: Path) -> None:
    variables = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    del variables[readiness.VARIABLE]
    subprocess.run([sys.executable, "-c", PROGRAM], env=variables, check=True, timeout=600)
    assert not list(tmp_path.rglob("*.nb?"))
