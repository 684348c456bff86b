"""A single event is coded on a way of its own; it has the codes that it has in a batch."""

from __future__ import annotations

import datetime
import tracemalloc
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.columns import event_codes
from ray_pubsub.columns.coding import NO_MATCH
from ray_pubsub.columns.event_codes import EventCodes, PatternColumns, encode_events
from ray_pubsub.columns.opaque.pattern_list import PatternColumn
from ray_pubsub.engines.pivot.segment import PivotSegment
from ray_pubsub.language.tree import Like, Operand
from ray_pubsub.model.dict_events import from_dicts, read_single
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.single_event import SingleEvent, single_of
from ray_pubsub.model.text_column import TextColumn
from ray_pubsub.model.values import Kind
from tests.inside_of_index import segmented

EXPRESSIONS = [
    "n > 5 and s = 'b'",
    "n in (1, 2, 40) and s < 'm'",
    "n <= 2.5",
    "s like '%x%' and n = 3",
    "s not like 'b%'",
    "s regexp '^[a-c]+$' or s = 'zz'",
    "not (s like '%y') and a.b = true",
    "t >= timestamp '2024-01-01 00:00:00'",
    *[f"s like '%{number}%' and n = {number}" for number in range(20)],
]
EVENTS: list[dict[str, Any]] = [
    {},
    {"n": 5},
    {"n": 2.5, "s": "b", "other": [1]},
    {"s": "abc", "n": 3},
    {"s": "x17x3", "n": 17},
    {"s": "zz", "a": {"b": True}},
    {"s": "é", "a.b": False, "n": 10**18},
    {"s": 5, "n": "five"},
    {"n": float("nan"), "s": None, "t": datetime.datetime(2025, 1, 1)},
    {"n": -1e300, "s": "by", "t": datetime.date(2023, 1, 1), "a": {"b": True}},
]


def cells(codes: EventCodes, row: int) -> set[tuple[int, int]]:
    place = slice(codes.offsets[row], codes.offsets[row + 1])
    return set(zip(codes.column[place].tolist(), codes.code[place].tolist(), strict=True))


@pytest.mark.parametrize("texts", [EXPRESSIONS, EXPRESSIONS[:8]], ids=["many patterns", "few patterns"])
def test_codes_of_one_and_of_many(texts: list[str]) -> None:
    index = MatchIndex()
    index.add_many(range(len(texts)), texts)
    engine = segmented(index)
    attributes = engine.vocabulary.attributes.tree
    block = PivotSegment(engine.snapshot.tail.table(), engine.vocabulary)
    many = encode_events(from_dicts(EVENTS, None, attributes), block.space, engine.vocabulary)
    for row, event in enumerate(EVENTS):
        for _ in range(3):  # the first may go without a plan, the last finds the plan that the second has left
            single = read_single(event, attributes)
            assert cells(encode_events(single, block.space, engine.vocabulary), 0) == cells(many, row)
    assert [index.match(event) for event in EVENTS] == [sorted(found) for found in index.match_many(EVENTS)]


NUMBERS = [4, 5, 6, 7, 12, 13, 14, 15, -(2**63), 2**63 - 1, 7.0, 7.5, -1e300, 1e300, True, "x"]


@pytest.mark.parametrize("others", [0, 5], ids=["a few, coded one by one", "more, coded by the kernel"])
def test_numbers_beside_strings_of_one_event(others: int) -> None:
    """Around the operands, which are all integers from 5 to 13, and far from them."""
    index = MatchIndex()
    index.add_many(range(9), [f"n = {number} and s != 'b'" for number in range(5, 14)])
    index.add_many(range(9, 9 + others), [f"o{number} = 1" for number in range(others)])
    index.add("largest", "n <= 13 or m < 4")
    engine = segmented(index)
    attributes = engine.vocabulary.attributes.tree
    block = PivotSegment(engine.snapshot.tail.table(), engine.vocabulary)
    rest = {f"o{number}": number for number in range(others)}
    events = [{"n": number, "s": "a", "m": 3} | rest for number in NUMBERS if number not in (True, "x")]
    events += [{"n": number, "s": text} | rest for number in NUMBERS for text in ("b", "c")]
    many = encode_events(from_dicts(events, None, attributes), block.space, engine.vocabulary)
    for row, event in enumerate(events):
        single = read_single(event, attributes)
        assert cells(encode_events(single, block.space, engine.vocabulary), 0) == cells(many, row), event


@pytest.mark.parametrize("room", [3, 1000])
def test_a_layout_gets_a_plan_when_it_comes_again(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_codes, "MOST_LANES", room)
    monkeypatch.setattr(event_codes, "MOST_NEW_LAYOUTS", room)
    index = MatchIndex()
    index.add_many(range(50), [f"n{number} > {number}" for number in range(50)])
    index.add("s", "s0 = 'a'")
    engine, random = segmented(index), Random(1)
    attributes = engine.vocabulary.attributes.tree
    block = PivotSegment(engine.snapshot.tail.table(), engine.vocabulary)
    values = [1, 30, 2.5, True]
    names = [random.sample(range(60), 8) for _ in range(40)]
    events: list[dict[str, Any]] = [{f"n{number}": random.choice(values) for number in each} for each in names]
    events.append({"n1": 2, "s0": "a"})
    many = encode_events(from_dicts(events, None, attributes), block.space, engine.vocabulary)
    for row, event in enumerate(events):
        plans = len(block.space.single_plans)
        for more in (0, 1, 1) if "s0" not in event else (1, 1, 1):
            single = read_single(event, attributes)
            assert cells(encode_events(single, block.space, engine.vocabulary), 0) == cells(many, row)
            assert len(block.space.single_plans) == plans + more
    assert max(len(block.space.lanes), len(block.space.new_layouts)) <= max(room, 180)


@pytest.mark.parametrize("event", EVENTS)
def test_a_batch_of_one_becomes_a_single_event(event: dict[str, Any]) -> None:
    """As it arrives in a shard."""
    read = from_dicts([event | {"other": None}])
    batch = EventBatch(1, read.lanes, read.input_ids)
    single = single_of(batch)
    assert isinstance(single, SingleEvent)
    assert single.rows() == batch.rows() == read.rows()
    assert single.layout() == batch.layout()
    assert single_of(single) is single


def test_a_lane_without_values_is_no_single_event() -> None:
    batch = from_dicts([{"n": 1}, {"s": "x"}])
    assert single_of(EventBatch(1, [lane for lane in batch.lanes if lane.attribute == "n"], batch.input_ids[:1]))
    empty = [lane for lane in batch.lanes if lane.attribute == "s"]
    empty[0].whole = empty[0].whole[:0]
    assert single_of(EventBatch(1, empty, batch.input_ids[:1])) is None


def test_attributes_that_are_read_of_wide_and_of_narrow_events() -> None:
    """Few attributes of many keys, many attributes of few keys, and attributes added later."""
    index = MatchIndex()
    index.add("one", "k5 = 1")
    wide = {f"k{number}": 1 for number in range(100)}
    assert index.match(wide) == ["one"]
    index.add_many([f"s{number}" for number in range(500)], [f"k{number} = 1" for number in range(500)])
    assert index.match({"k5": 1, "k499": 1, "k500": 1}) == ["one", "s5", "s499"]


def test_refusals_take_memory_of_their_own_only() -> None:
    """Of 2,000 patterns one is negated: a batch has a cell per string for it, and none for each pattern that does not match."""
    leaves = [Like("name", Operand(Kind.STRING, f"%w{number}x%"), None, False) for number in range(2000)]
    patterns = [PatternColumn(0, leaf) for leaf in leaves]
    space: Any = SimpleNamespace(attributes=np.zeros(1), patterns=patterns, refusals={1 + 7})
    columns = PatternColumns(space, list(range(2000)))
    strings = [f"a w{number}x and w{2 * number}x" for number in range(1000)]
    columns.codes(TextColumn(None, strings))
    tracemalloc.start()
    offsets, column, code = columns.codes(TextColumn(None, strings))
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()
    for place in (0, 3, 7, 8, 999):
        found = sorted(
            zip(column[offsets[place] : offsets[place + 1]].tolist(), code[offsets[place] :].tolist(), strict=False)
        )
        assert found == sorted(zip(*columns.single(strings[place]), strict=True))
        assert ((8, NO_MATCH) in found) == (place != 7)
