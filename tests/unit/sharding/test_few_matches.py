"""A few matches of one event are lists until somebody needs columns."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from ray_pubsub.sharding.few_matches import FewMatches, listed_subscribers
from ray_pubsub.sharding.merging import ShardMatches, merge_matches, subscribers_of

COLUMNS = ShardMatches.each(np.array([0, 2]), np.array([5, 7]), np.array([3, 1], np.int32), np.array([8, 9]))


def lists(matches: ShardMatches) -> list[Any]:
    numbers = matches.numbers
    return [
        matches.offsets.tolist(), matches.places.tolist(), matches.ids.tolist(), matches.subscribers.tolist(),
        None if numbers is None else numbers.tolist(),
    ]  # fmt: skip


@pytest.mark.parametrize("numbers", [[8, 9], None])
def test_the_columns_are_those_of_the_same_matches(numbers: list[int] | None) -> None:
    few = FewMatches([5, 7], [3, 1], numbers)
    assert (len(few), few.events) == (2, 1)
    expected = ShardMatches(COLUMNS.offsets, COLUMNS.places, COLUMNS.ids, COLUMNS.subscribers)
    expected.numbers = None if numbers is None else COLUMNS.numbers
    assert lists(few) == lists(expected)
    assert few.ids.dtype == np.int64 and not few.ids.flags.writeable
    assert lists(pickle.loads(pickle.dumps(FewMatches([5, 7], [3, 1], numbers)))) == lists(expected)


def test_ids_of_two_types_and_no_matches() -> None:
    assert FewMatches(["a", 7], [1, 2], None).match_ids.tolist() == ["a", 7]
    assert lists(FewMatches([], [], [])) == [[0, 0], [], [], [], []]
    with pytest.raises(AttributeError):
        FewMatches([], [], []).unknown  # noqa: B018


def test_they_merge_with_others_and_name_their_subscribers() -> None:
    parts = [FewMatches([5], [4], [1]), FewMatches([6], [2], [0]), COLUMNS]
    assert merge_matches(parts, 1).match_ids.tolist() == [5, 6, 5, 7]
    for some in (parts, parts[:2], parts[:1], []):
        assert listed_subscribers(some) == subscribers_of(some).tolist()
