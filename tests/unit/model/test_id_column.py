"""The column of ids against a list: whatever is appended, and in whatever portions, is what is taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_pubsub.model.id_column import IdColumn

MOST, LEAST = 2**63 - 1, -(2**63)
runs = st.builds(
    lambda first, count: list(range(first, min(first + count, MOST + 1))),
    st.sampled_from([0, 1, 5, -3, LEAST, MOST, MOST - 2]),
    st.integers(0, 6),
)
portions = st.lists(runs | st.lists(st.integers(LEAST, MOST) | st.text(max_size=3), max_size=4), max_size=6)


def column_of(parts: list[list[Any]]) -> IdColumn:
    column = IdColumn()
    for part in parts:
        column.append(part)
    return column


@given(portions)
def test_what_was_appended_is_taken(parts: list[list[Any]]) -> None:
    column, expected = column_of(parts), [identity for part in parts for identity in part]
    assert len(column) == len(expected)
    taken = column.take(np.arange(len(expected))).tolist()
    assert taken == expected
    assert list(map(type, taken)) == list(map(type, expected))


@pytest.mark.parametrize("start", [0, 1, -7, MOST - 5])
def test_ids_that_follow_one_another_are_not_stored(start: int) -> None:
    column = column_of([list(range(start, start + 3)), [start + 3], [start + 4, start + 5]])
    assert column.nbytes == 0
    assert column.take(np.array([5, 0, 3])).tolist() == [start + 5, start, start + 3]


@pytest.mark.parametrize("break_with", [[7], [6, 7, 9], ["6"], [5]])
def test_a_run_that_breaks(break_with: list[Any]) -> None:
    column = column_of([[3, 4, 5], break_with, [1]])
    assert column.take(np.arange(len(column))).tolist() == [3, 4, 5, *break_with, 1]


def test_the_largest_id_is_not_followed_by_the_least() -> None:
    column = column_of([[MOST], [LEAST]])
    assert column.take(np.arange(2)).tolist() == [MOST, LEAST]
    assert column_of([[MOST, LEAST]]).take(np.arange(2)).tolist() == [MOST, LEAST]
