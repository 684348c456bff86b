"""Expressions too large for clauses are kept as conjunctions of disjunctions, in every engine, in tail and blocks, merged and removed."""

from __future__ import annotations

import datetime
from functools import cache
from random import Random
from typing import Any

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.columns.clause_compiler import Compiler
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.cnf.segment import CnfSegment
from ray_pubsub.engines.registry import build_of, engine_names
from ray_pubsub.index.segmented_index import SegmentedIndex
from ray_pubsub.language.parser import parse
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.language.truth import truth
from ray_pubsub.model.dict_events import flatten, from_dicts, read_single
from ray_pubsub.model.event_batch import Lane
from ray_pubsub.model.select_events import LazyEvent
from ray_pubsub.settings import Limits
from tests.inside_of_index import merge_all, segmented

SMALL = Limits(clauses=1)
"""So small that almost any conjunction of disjunctions is kept as one."""

LITERALS = [
    "a = 1", "a != 1", "a < 2", "a between 1 and 2", "a not between 1 and 2", "a in (0, 3)", "a not in (0, 3)", "a is null",
    "a is not null", "a = 9007199254740993", "a > 2.5", "b = 1", "b >= 2", "b is null", "not b < 1", "b in (1, null)", "b = 'x'",
    "s = 'x'", "s != 'x'", "s > 'xa'", "s like 'x%'", "s like '%y'", "s not like '%y'", "s regexp 'x+y'", "not s regexp '^x'",
    "s in ('x', 'yy')", "s is null", "s is not null", "s like '%y' and s > 'xx'", "s like '%y' and s not like 'a%b'", "s = 1",
    "d", "not d", "d = false", "d is null", "t > timestamp '2024-05-01 00:00:00'", "t = date '2024-05-01'", "t is null",
    "(a = 1 and b = 1)", "not (a = 1 or s = 'x')", "(a = 1 and (b = 2 or s = 'y'))",
]  # fmt: skip
VALUES: dict[str, list[Any]] = {
    "a": [0, 1, 2, 3, 2.5, 9007199254740993, 9007199254740992.0, "x", True],
    "b": [0, 1, 2, 3, "x"],
    "s": ["", "x", "xy", "xxy", "y", "yy", "ab", "axxb", 1, False],
    "d": [True, False, "x"],
    "t": [datetime.datetime(2024, 5, 1), datetime.datetime(2024, 5, 2), 1],
}
every_engine = pytest.mark.parametrize("engine", [engine for engine in engine_names() if engine != "scan"])


def expression(random: Random) -> str:
    conjuncts = [
        " or ".join(random.sample(LITERALS, random.choice([1, 2, 2, 3, 3, 4]))) for _ in range(random.randint(3, 9))
    ]
    return ("not " if random.random() < 0.1 else "") + "(" + " and ".join(f"({part})" for part in conjuncts) + ")"


def event(random: Random) -> dict[str, Any]:
    return {name: random.choice(values) for name, values in VALUES.items() if random.random() < 0.8}


EVENTS = [event(Random(number)) for number in range(60)]


@cache
def holds(text: str, number: int) -> bool:
    """Whether the expression is true for an event of EVENTS; engines are asked about the same ones."""
    return truth(parsed(text), flatten(EVENTS[number])) is True


parsed = cache(parse)


def expected(texts: dict[int, str]) -> list[list[int]]:
    return [[number for number, text in texts.items() if holds(text, place)] for place in range(len(EVENTS))]


def found(index: MatchIndex) -> list[list[Any]]:
    result = index.match_many(EVENTS)
    one_by_one = [sorted(index.match(each)) for each in EVENTS[:20]]
    many = [sorted(result[place]) for place in range(len(EVENTS))]
    assert many[:20] == one_by_one
    return many


@every_engine
def test_live(engine: str) -> None:
    random = Random(4)
    index, texts = MatchIndex(engine, limits=SMALL), {}
    for number in range(230):
        texts[number] = expression(random)
        index.add(number, texts[number])
        if number % 60 == 3:
            assert found(index) == expected(texts)
    for number in random.sample(sorted(texts), 140):
        assert index.remove(number)
        del texts[number]
    assert found(index) == expected(texts)
    for number in range(1000, 1060):
        texts[number] = expression(random)
    index.add_many(range(1000, 1060), [texts[number] for number in range(1000, 1060)], atomic=True)
    assert found(index) == expected(texts)
    assert any(expected(texts))


def live_index(texts: list[str], limits: Limits = SMALL) -> SegmentedIndex:
    live, shapes = SegmentedIndex(limits, build_of("auto", {})), ShapeCache(limits)
    for slot, text in enumerate(texts):
        live.add(slot, shapes.parse(text), -1)
    return live


def test_they_live_in_a_segment_of_their_own_and_merge() -> None:
    random = Random(5)
    texts = [expression(random) if number % 2 else f"a = {number}" for number in range(300)]
    live = live_index(texts)
    merge_all(live)
    kinds = [type(block) for block in live.snapshot.blocks]
    assert len(kinds) == 2 and kinds.count(CnfSegment) == 1
    owners = {owner for block in live.snapshot.blocks for owner in block.owners.tolist()}
    for slot in range(0, 300, 3):
        live.remove(slot)
    merge_all(live)
    left = {owner for block in live.snapshot.blocks for owner in block.owners.tolist()}
    assert left == {owner for owner in owners if owner % 3}


def test_merging_changes_no_disjunction() -> None:
    """What a segment gives back for merging codes to the same tests again."""
    random = Random(6)
    vocabulary, shapes = Vocabulary(), ShapeCache(SMALL)
    compiler = Compiler(vocabulary, SMALL)
    for owner in range(100):
        compiled = compiler.compile(shapes.parse(expression(random)))
        if compiled.conjunctive:
            for records in compiled.clauses:
                compiler.table.append(owner, records)
    first = CnfSegment(compiler.table, vocabulary)
    second = CnfSegment(first.table(), vocabulary)
    assert (second.owners == first.owners).all()
    for name in ("offsets", "column", "low", "high"):
        assert getattr(first.coded, name).tolist() == getattr(second.coded, name).tolist(), name


def test_only_what_nests_needs_its_expression_asked() -> None:
    compiler, shapes = Compiler(Vocabulary(), SMALL), ShapeCache(SMALL)

    def compiled(*parts: str) -> tuple[bool, bool]:
        result = compiler.compile(shapes.parse(" and ".join(f"({part})" for part in parts)))
        return result.conjunctive, result.residual

    plain = ["a = 1 or b = 2", "c = 1 or s like '%x'", "e is null or f > 1", "not g = 1 or h = 1", "i = 1 or j = 2"]
    assert compiled(*plain) == (True, False)
    assert compiled(*plain, "k = 1 or (s like '%x' and s like 'a%b' and s > 'c')") == (True, False)
    nested = " or ".join(
        f"(x{number} = 1 and (y{number} = 1 or (z{number} = 2 and w{number} = 3)))" for number in range(9)
    )
    assert compiled(*plain, nested) == (True, True)


def test_a_shape_is_worked_out_once_and_says_the_same() -> None:
    """Two expressions of one shape, by its recipe; and the same without constants to read, by the normal form."""
    parts = [
        "a = {} or b <= {} or s = '{}'",
        "a between {} and 5 or b in ({}, 7) or d",
        "s like '{}%' or s like '%{}' or a is null",
    ]
    template = " and ".join(f"({part})" for part in [*parts, *parts, "not (a > {} and b > {})"])
    random = Random(8)
    texts = {number: template.format(*(random.randint(0, 3) for _ in range(16))) for number in range(80)}
    index = MatchIndex(limits=Limits(clauses=4))
    index.add_many(texts.keys(), texts.values(), atomic=True)
    answers = expected(texts)
    assert found(index) == answers and any(answers)


def test_explain_counts_what_is_met() -> None:
    texts = [" and ".join(f"(a{part} = {number} or b{part} = 1)" for part in range(8)) for number in range(200)]
    live = live_index(texts, Limits())
    merge_all(live)
    (block,) = live.snapshot.blocks
    plan = block.explain(from_dicts([{f"a{part}": 7 for part in range(8)}]))
    assert (plan.engine, plan.clauses, plan.matches, plan.verified) == ("cnf", 200, 1, 1)
    assert [step.actual for step in plan.steps] == [1, 1]
    nothing = block.explain(from_dicts([{"z": 1}]))
    assert (nothing.matches, nothing.partitions.clauses_skipped, nothing.partitions.visited) == (0, 200, 0)


def test_of_a_candidate_only_what_its_expression_tests_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch has thousands of other values, and a Python object for each takes longer than the match."""
    index = MatchIndex(limits=SMALL)
    nested = [" or ".join(f"x{each} = 2 and b > {each}" for each in range(number, number + 12)) for number in range(8)]
    index.add("s", f"k = 1 and ({') and ('.join(nested)})")
    assert segmented(index).snapshot.residual
    index.add_many(range(20), [f"x{number} = 1" for number in range(20)])
    events = [
        {"k": place % 50, "a": 2, "b": place, "s": "x", **{f"x{each}": 2 for each in range(20)}} for place in range(200)
    ]
    read: list[str] = []
    plain = Lane.plain
    monkeypatch.setattr(Lane, "plain", lambda lane, position: [read.append(lane.attribute), plain(lane, position)][1])
    assert [place for place, ids in enumerate(index.match_many(events)) if ids] == [51, 101, 151]
    assert 0 < len(read) < 60  # four candidates
    assert not {"a", "s"} & set(read)


def test_an_event_read_on_demand_is_the_event() -> None:
    batch = from_dicts(EVENTS)
    lanes = LazyEvent.lanes_of(batch)
    for row, values in enumerate(batch.rows()):
        assert dict(LazyEvent(batch, lanes, row, {})) == values
        single = read_single(EVENTS[row], None)
        lazy = LazyEvent(single, LazyEvent.lanes_of(single), 0, {})
        assert dict(lazy) == values
        assert "nobody's" not in lazy and len(lazy) == len(values)
