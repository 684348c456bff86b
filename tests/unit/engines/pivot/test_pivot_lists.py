"""Pivot lists: sets under each of their values, other tests asked by buckets, rows of codes, and states that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.columns.coding import code_clauses
from ray_pubsub.columns.saved_state import SavedState, Texts, UnfitStateError, packed_texts
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.pivot.lists import build_lists, coded_of_rows
from ray_pubsub.engines.pivot.segment import PivotSegment
from ray_pubsub.index.bulk.predicate_table import PredicateTable
from ray_pubsub.kernels.pivot.pivot_lists import PROVEN, SLOTS
from ray_pubsub.model.dict_events import from_dicts
from tests.unit.engines.coded_tables import EXPRESSIONS, matched, mixed_events, table_of

KINDS = ("in", "not in", "between", "at least", "equal", "like", "absent")


def rule(random: Random, values: int) -> str:
    """Tests of all kinds on four attributes, each a number or a string in events."""
    parts = []
    for name in random.sample("abcd", random.randint(1, 4)):
        kind, number = random.choice(KINDS), random.randrange(values)
        write = random.choice(("'v{}'", "{}")).format
        members = random.sample(range(values), random.randint(1, min(values, 40)))
        listed = ", ".join(write(member) for member in members)
        parts.append(
            {
                "in": f"{name} in ({listed})",
                "not in": f"{name} not in ({listed})",
                "between": f"{name} between {number} and {number + random.randrange(values)}",
                "at least": f"{name} >= {number}",
                "equal": f"{name} = 'v{number}'",
                "like": f"{name} like 'v{number}%'",
                "absent": f"({name} is null or {name} = {number})",
            }[kind]
        )
    return " and ".join(parts)


def event(random: Random, values: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in "abcd":
        value = random.randrange(values + 2)
        if random.random() < 0.9:
            found[name] = random.choice((value, f"v{value}", value + 0.5))
    return found


@pytest.mark.parametrize("values", [3, 60, 2000])
def test_every_kind_of_test_against_the_scan(values: int) -> None:
    random, vocabulary = Random(values), Vocabulary()
    texts = [rule(random, values) for _ in range(400)]
    segment = PivotSegment(table_of(texts, vocabulary), vocabulary)
    scan = MatchIndex("scan")
    scan.add_many(range(len(texts)), texts)
    events = [event(random, values) for _ in range(150)]
    expected = scan.match_many(events)
    found = matched(segment, from_dicts(events))  # type: ignore[arg-type]
    assert [sorted(set(owners)) for owners in found] == [sorted(expected[place]) for place in range(len(events))]
    assert any(len(owners) for owners in found)
    again = PivotSegment(segment.table(), vocabulary)
    assert matched(again, from_dicts(events)) == found  # type: ignore[arg-type]


@pytest.mark.parametrize("more", [[], ["s is null"], ["s like '%x%' and n = 1"]])
def test_patterns_of_one_attribute_alone_and_beside_other_rules(more: list[str]) -> None:
    """Alone, their entries are alike, and an event makes the tests that they have in common once."""
    vocabulary = Vocabulary()
    texts = [f"s like '%{number}-%'" for number in range(3000)] + more
    segment = PivotSegment(table_of(texts, vocabulary), vocabulary)
    assert segment._lists.alike is not bool(more)
    every = "".join(f"{number}-" for number in range(3000))
    strings = ["", "7-", "x17-", "2999-1-", every, "x", "123-456-"]
    events: list[dict[str, Any]] = [{"s": text} for text in strings]
    events += [{}, {"s": 7}, {"n": 1}, {"s": "1-", "n": 1}, {"s": True}]
    scan = MatchIndex("scan")
    scan.add_many(range(len(texts)), texts)
    expected = [sorted(ids) for ids in scan.match_many(events)]
    assert [sorted(set(owners)) for owners in matched(segment, from_dicts(events))] == expected  # type: ignore[arg-type]
    assert len(expected[4]) >= 3000


def pivots(texts: list[str], frequency: Any = None) -> dict[str, int]:
    """The attributes under which clauses are found, by the number of clauses."""
    vocabulary = Vocabulary()
    segment = PivotSegment(table_of(texts, vocabulary), vocabulary, frequency)
    everything = {name: value for name in "abc" for value in ["v1"]}
    plan = segment.explain(from_dicts([everything]))
    return {pipeline.of: pipeline.clauses for pipeline in plan.pipelines}


def met(texts: list[str], given: dict[str, Any]) -> int:
    """How many entries an event meets."""
    vocabulary = Vocabulary()
    segment = PivotSegment(table_of(texts, vocabulary), vocabulary)
    return sum(pipeline.steps[0].actual for pipeline in segment.explain(from_dicts([given])).pipelines)


def test_a_set_is_found_under_each_of_its_values() -> None:
    """Its values lie far apart; a list by its ends would lead every value to it."""
    texts = [f"a in ('v{number:03}', 'v{number + 500:03}')" for number in range(400)]
    assert [met(texts, {"a": f"v{number:03}"}) for number in (0, 399, 450, 500, 899)] == [1, 1, 0, 1, 1]


def test_a_short_range_is_found_by_value() -> None:
    texts = [f"a between {number} and {number + 3}" for number in range(500)]
    assert met(texts, {"a": 250}) == 4


def test_the_rarer_constant_is_the_pivot() -> None:
    texts = [f"a = 'v1' and b in ('v{number}', 'v{number + 1}')" for number in range(100)]
    assert pivots(texts) == {"pivot b": 100}


def test_a_negated_set_is_no_pivot_beside_another_test() -> None:
    texts = [f"a not in ('v{number}') and b in ('v1', 'v2', 'v3')" for number in range(50)]
    texts += [f"b = 'v{number}'" for number in range(50)]
    assert pivots(texts) == {"pivot b": 100}
    assert pivots(["a not in ('v7')", "a not in ('v8', 'v9')"]) == {"pivot a": 2}


def test_what_events_carry_decides() -> None:
    texts = [f"a = 'v{number % 10}' and b = 'v{number}'" for number in range(100)]
    assert pivots(texts) == {"pivot b": 100}
    assert pivots(texts, np.array([0.001, 1.0])) == {"pivot a": 100}


def test_an_entry_whose_other_tests_fail_is_not_compared() -> None:
    texts = [f"a = 'v1' and b = 'v{number}' and c = 'v{number}'" for number in range(64)]
    vocabulary = Vocabulary()
    segment = PivotSegment(table_of(texts, vocabulary), vocabulary)
    plan = segment.explain(from_dicts([{"a": "v2", "b": "v3", "c": "v3"}]))
    assert plan.verified == 0


def test_few_values_need_no_comparison() -> None:
    """Every code of b has a bucket of its own."""
    vocabulary = Vocabulary()
    table = table_of([f"a = {number} and b = {number % 2}" for number in range(100)], vocabulary)
    segment = PivotSegment(table, vocabulary)
    assert (segment.state()["entries"][3::4] >= PROVEN).all()
    plan = segment.explain(from_dicts([{"a": 7, "b": 1}]))
    assert (plan.verified, plan.matches) == (0, 1)


def test_more_columns_than_slots() -> None:
    count = SLOTS + 2000
    rows = {
        "id": np.repeat(np.arange(count), 2),
        "attribute": np.stack([np.arange(count), (np.arange(count) * 7 + 1) % count], axis=1).ravel().astype(str),
        "low": np.ones(2 * count, np.int64),
        "high": np.repeat(np.arange(count) % 2 + 1, 2),
    }
    predicates, vocabulary = PredicateTable(pa.table(rows)), Vocabulary()
    predicates.first_slot = 0
    segment = PivotSegment(predicates.clauses(np.arange(count), vocabulary), vocabulary)
    for clause in (0, 1, SLOTS - 1, SLOTS, SLOTS + 1, count - 1):
        names = [str(clause), str((clause * 7 + 1) % count)]
        for value in (1, 2):
            found = matched(segment, from_dicts([dict.fromkeys(names, value)]))[0]  # type: ignore[arg-type]
            assert (clause in found) == (value <= clause % 2 + 1)


@pytest.mark.parametrize("wide", [False, True])
def test_rows_are_the_tests(wide: bool) -> None:
    """In 16 bits and, if there are many operands, in 32."""
    vocabulary = Vocabulary()
    operands = ", ".join(f"{number}.5" for number in range(40_000 if wide else 10))
    table = table_of([*EXPRESSIONS, f"z in ({operands})"], vocabulary)
    coded = code_clauses(table, vocabulary, sparseness=4)
    built = build_lists(coded, np.arange(table.count))
    assert built.lists.words.dtype == (np.int32 if wide else np.uint16)
    read = coded_of_rows(coded.space, built.lists.words, built.rows)

    def clauses(tests: Any) -> list[Any]:
        found = []
        for first, last in zip(tests.offsets[:-1].tolist(), tests.offsets[1:].tolist(), strict=True):
            clause = []
            for test in range(first, last):
                piece = -1 if tests.pieces is None else int(tests.pieces[test])
                parts = slice(*tests.piece_offsets[piece : piece + 2].tolist()) if piece >= 0 else slice(0)
                clause.append(
                    (
                        int(tests.column[test]), int(tests.low[test]), int(tests.high[test]),
                        tests.piece_low[parts].tolist(), tests.piece_high[parts].tolist(),
                    )
                )  # fmt: skip
            found.append(clause)
        return sorted(found)

    assert clauses(read) == clauses(coded)


def test_changes_of_an_index_with_sets() -> None:
    random = Random(3)
    index, scan = MatchIndex(), MatchIndex("scan")
    for step in range(4):
        texts = [rule(random, 200) for _ in range(1200)]
        for each in (index, scan):
            each.add_many(range(step * 800, step * 800 + 1200), texts)
            each.remove_many(range(step * 700, step * 700 + 90))
    events = [event(random, 200) for _ in range(15)]
    found, expected = index.match_many(events), scan.match_many(events)
    assert [sorted(found[place]) for place in range(15)] == [sorted(expected[place]) for place in range(15)]


def saved() -> tuple[dict[str, Any], Vocabulary, int]:
    vocabulary, random = Vocabulary(), Random(4)
    table = table_of([rule(random, 30) for _ in range(100)], vocabulary)
    state = PivotSegment(table, vocabulary).state()
    return (
        {name: part.copy() if isinstance(part, np.ndarray) else part for name, part in state.items()},
        vocabulary,
        100,
    )


def _set(name: str, place: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(state: dict[str, Any]) -> None:
        state[name][place] = value

    return change


def _cut(name: str, end: int) -> Callable[[dict[str, Any]], None]:
    def change(state: dict[str, Any]) -> None:
        state[name] = state[name][:end]

    return change


def _fewer_clauses(state: dict[str, Any]) -> None:
    state["clauses"] -= 1


@pytest.mark.parametrize(
    "change",
    [
        _set("entries", 0, 0xFFFF0000),
        _set("entries", 1, 0xFFFF0000),
        _set("entries", 2, 100),
        _set("entries", 3, 1),
        _set("entries", 3, PROVEN - 1),
        _set("words", 0, 0xFFFF),
        _set("words", 1, 0xFFFF),
        _set("words", 2, 0),
        _set("words", 2, 0xFFFF),
        _set("words", 3, 0xFFFF),
        _cut("words", -1),
        _cut("words", 0),
        _cut("entries", -1),
        _cut("entries", -4),
        _cut("directory", -4),
        _set("directory", 1, 10_000),
        _set("bucket", 0, 16),
        _fewer_clauses,
    ],
)
def test_states_that_do_not_fit(change: Callable[[dict[str, Any]], None]) -> None:
    state, vocabulary, slots = saved()
    events = mixed_events(np.random.default_rng(1), 20)
    restored = PivotSegment.restored(SavedState(_plain(state)), vocabulary, slots)
    assert matched(restored, events)  # type: ignore[arg-type]
    change(state)
    with pytest.raises(UnfitStateError):
        PivotSegment.restored(SavedState(_plain(state)), vocabulary, slots)


def _plain(value: Any) -> Any:
    """As a file gives it back: texts as offsets and bytes."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, Texts):
        return dict(zip(("offsets", "data"), packed_texts(value.texts), strict=True))
    return value
