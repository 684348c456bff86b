"""Several shards' answers as one, against lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_pubsub.errors import SettingError
from ray_pubsub.sharding.merging import ShardMatches, merge_matches

Answer = list[list[int]]
"""Per event the numbers that match. A number's subscriber is its last digit, its version ten times the number."""


def answer(matches: Answer, versions: bool = True, frozen: bool = False) -> ShardMatches:
    offsets = np.cumsum([0, *map(len, matches)]).astype(np.int64)
    numbers = np.array([number for event in matches for number in event], dtype=np.int64)
    columns = (offsets, numbers, (numbers % 10).astype(np.int32), numbers * 10)
    for column in columns:
        column.flags.writeable = not frozen
    return ShardMatches(*columns[:3], columns[3] if versions else None)


def listed(found: ShardMatches) -> Answer:
    assert found.subscribers.tolist() == [number % 10 for number in found.numbers.tolist()]
    assert found.versions is None or found.versions.tolist() == [10 * number for number in found.numbers.tolist()]
    assert (found.offsets.dtype, found.numbers.dtype, found.subscribers.dtype) == (np.int64, np.int64, np.int32)
    assert found.offsets[-1] == len(found.numbers) == len(found.subscribers)
    return [part.tolist() for part in np.split(found.numbers, found.offsets[1:-1])] if found.events else []


@st.composite
def answers(draw: st.DrawFn) -> list[Answer]:
    """Of several shards for one batch; within a shard a number comes once per event."""
    events, shards = draw(st.integers(0, 4)), draw(st.integers(2, 4))
    # Numbers that collide in a small hash table are among them.
    number = st.integers(1, 6) | st.sampled_from([2**17, 2**20, 2**40 + 1, 2**59])
    event = st.lists(number, unique=True, max_size=5)
    return [draw(st.lists(event, min_size=events, max_size=events)) for _ in range(shards)]


@given(answers(), st.booleans(), st.booleans())
def test_by_shards_in_their_order(parts: list[Answer], versions: bool, frozen: bool) -> None:
    events = len(parts[0])
    merged = merge_matches([answer(part, versions, frozen) for part in parts], events)
    assert listed(merged) == [[number for part in parts for number in part[event]] for event in range(events)]
    assert (merged.versions is not None) == versions


@given(answers(), st.booleans())
def test_repeated_ones_once(parts: list[Answer], versions: bool) -> None:
    events = len(parts[0])
    merged = merge_matches([answer(part, versions) for part in parts], events, repeated=True)
    assert listed(merged) == [
        list(dict.fromkeys(number for part in parts for number in part[event])) for event in range(events)
    ]


def test_one_shard_is_passed_on() -> None:
    only = answer([[1, 2], []])
    assert merge_matches([only], 2) is only


def test_no_shard_at_all() -> None:
    assert listed(merge_matches([], 3)) == [[], [], []]


def test_versions_only_if_all_have_them() -> None:
    assert merge_matches([answer([[1]]), answer([[2]], versions=False)], 1).versions is None


def test_an_answer_for_another_batch() -> None:
    with pytest.raises(SettingError, match="3 events, not for the batch's 2"):
        merge_matches([answer([[], []]), answer([[], [], []])], 2)
