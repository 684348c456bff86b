"""Many shards' matches as one: nothing lost, nothing doubled, the order kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_pubsub.errors import SettingError
from ray_pubsub.sharding.merging import ShardMatches, chained, merge_matches, packed_ids, unpacked_ids

Answer = list[list[int]]
"""Per event the numbers that match."""


def identity(number: int, kind: str) -> int | str:
    texts = kind == "str" or (kind == "mixed" and number % 2)
    return f"s{number}" if texts else 1000 + number


def answer(matches: Answer, kind: str = "int", numbers: bool = True, frozen: bool = False) -> ShardMatches:
    flat = np.array([number for event in matches for number in event], np.int64)
    ids = np.array([identity(number, kind) for number in flat.tolist()], np.int64 if kind == "int" else object)
    offsets = np.cumsum([0, *map(len, matches)])
    columns = [offsets]
    for column in (*columns, ids, flat) if frozen else ():
        column.setflags(write=False)
    return ShardMatches.each(offsets, packed_ids(ids), (flat % 1000).astype(np.int32), flat if numbers else None)


def once(matches: Answer, kind: str) -> ShardMatches:
    """The same, each subscription once."""
    flat = [number for event in matches for number in event]
    numbers = np.array(list(dict.fromkeys(flat)), np.int64)
    ids = np.array([identity(number, kind) for number in numbers.tolist()], np.int64 if kind == "int" else object)
    places = np.array([numbers.tolist().index(number) for number in flat], np.int32)
    offsets = np.cumsum([0, *map(len, matches)])
    return ShardMatches(offsets, places, packed_ids(ids), (numbers % 1000).astype(np.int32), numbers)


def listed(found: ShardMatches) -> list[list[tuple[int | str, int]]]:
    ids, subscribers = unpacked_ids(found.match_ids).tolist(), found.match_subscribers.tolist()
    pairs = list(zip(ids, subscribers, strict=True))
    return [pairs[start:end] for start, end in zip(found.offsets.tolist(), found.offsets.tolist()[1:], strict=False)]


def expected(events: Answer, kind: str) -> list[list[tuple[int | str, int]]]:
    return [[(identity(number, kind), number % 1000) for number in event] for event in events]


KINDS = st.sampled_from(["int", "str", "mixed"])
EVENTS = st.integers(0, 6)


@given(EVENTS, st.data(), KINDS, st.booleans(), st.booleans())
def test_all_matches_of_all_shards(events: int, data: st.DataObject, kind: str, numbers: bool, frozen: bool) -> None:
    parts = data.draw(st.lists(st.lists(st.lists(st.integers(0, 99)), min_size=events, max_size=events), max_size=4))
    merged = merge_matches([answer(part, kind, numbers, frozen) for part in parts], events)
    wanted = [[number for part in parts for number in part[event]] for event in range(events)]
    assert listed(merged) == expected(wanted, kind)
    assert listed(merge_matches([once(part, kind) for part in parts], events)) == expected(wanted, kind)
    assert listed(chained([once(part, kind) for part in parts])) == [
        event for part in parts for event in expected(part, kind)
    ]


@given(EVENTS, st.data(), KINDS)
def test_what_comes_twice_counts_once(events: int, data: st.DataObject, kind: str) -> None:
    # Numbers that collide in a small hash table are among them.
    numbers = st.lists(st.integers(0, 30) | st.sampled_from([2**17, 2**20, 2**40 + 1, 2**59]), unique=True)
    parts = data.draw(st.lists(st.lists(numbers, min_size=events, max_size=events), min_size=2, max_size=4))
    merged = merge_matches([answer(part, kind) for part in parts], events, repeated=True)
    wanted = [list(dict.fromkeys(number for part in parts for number in part[event])) for event in range(events)]
    assert listed(merged) == expected(wanted, kind)
    merged = merge_matches([once(part, kind) for part in parts], events, repeated=True)
    assert listed(merged) == expected(wanted, kind)


def test_ids_of_several_kinds_stay_apart() -> None:
    merged = merge_matches([answer([[1], [2]]), answer([[3], [4]], "str"), answer([[], []], "str")], 2)
    assert [[pair[0] for pair in event] for event in listed(merged)] == [[1001, "s3"], [1002, "s4"]]


def test_a_single_answer_is_passed_on_as_it_is() -> None:
    only = answer([[1], [2, 3]])
    assert merge_matches([only], 2) is only


def test_no_shard_no_match() -> None:
    assert listed(merge_matches([], 3)) == [[], [], []]


def test_answers_for_another_number_of_events_are_refused() -> None:
    with pytest.raises(SettingError, match="3 events, not for the batch's 2"):
        merge_matches([answer([[], []]), answer([[], [], []])], 2)


def test_without_numbers_repetitions_cannot_be_told() -> None:
    with pytest.raises(SettingError, match="without numbers"):
        merge_matches([answer([[1]]), answer([[1]], numbers=False)], 1, repeated=True)
