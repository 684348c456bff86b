"""Numbers in pages against a dict: a reader finds what was there when it began, whatever is added and removed meanwhile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.shard import subscription_columns as numbered_columns
from actors.shard.subscription_columns import PAGE, SubscriptionColumns

PAGES = 5
NUMBERS = [page * PAGE + place for page in (0, 1, 2, 3, 70) for place in (0, 5, PAGE - 1)]
"""Few pages, of which few numbers live, so that pages are emptied and given away all the time; the last is beyond the first table."""


def meaning(number: int) -> tuple[Any, int]:
    """A number never means two things. Some ids are of int, some of str."""
    return (number * 3 if number < 3 * PAGE else f"s{number}"), number % 1000


def put(columns: SubscriptionColumns, numbers: list[int]) -> None:
    for kind in (int, str):
        own = [number for number in numbers if isinstance(meaning(number)[0], kind)]
        ids = np.array([meaning(number)[0] for number in own], np.int64 if kind is int else object)
        codes = np.array([meaning(number)[1] for number in own], np.int32)
        columns.put(np.array(own, np.int64), ids, codes)


def check(columns: SubscriptionColumns, numbers: set[int]) -> None:
    listed = sorted(numbers)
    known = columns.resolve(np.array(listed, np.int64), np.ones(len(listed), np.int32))
    assert list(zip(*(column.tolist() for column in known), strict=True)) == [meaning(number) for number in listed]


@pytest.fixture(autouse=True)
def small_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbered_columns, "FIRST_PAGES", 1)


some = st.lists(st.sampled_from(NUMBERS), unique=True, max_size=6)
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "put", "drop", "drop"]), some)
    | st.tuples(st.sampled_from(["begin", "end", "read"]), st.integers(0, 3)),
    max_size=40,
)


@given(STEPS)
def test_against_a_dict(steps: list[tuple[str, Any]]) -> None:
    columns = SubscriptionColumns()
    living: set[int] = set()
    counts: dict[int, int] = {}
    readers: list[tuple[int, set[int]]] = []
    for step, argument in steps:
        if step == "put":
            put(columns, argument)
            counts.update({number: 0 for number in argument if number not in living})
            living |= set(argument)
        elif step == "drop":
            columns.drop(np.array(argument, np.int64))
            living -= set(argument)
        elif step == "begin":
            readers.append((columns.begin_reading(), set(living)))
        elif step == "end" and readers:
            columns.end_reading(readers.pop(argument % len(readers))[0])
        elif step == "read" and readers:
            seen = readers[argument % len(readers)][1]
            check(columns, seen)
            for number in seen & living:
                counts[number] += 1
        assert len(columns) == len(living)
        known = columns.known(np.array(NUMBERS, np.int64))
        assert {number for number, there in zip(NUMBERS, known.tolist(), strict=True) if there} == living
    for reader, seen in readers:
        check(columns, seen)
        for number in seen & living:
            counts[number] += 1
        columns.end_reading(reader)
    found = columns.counts()
    assert {
        number: (identity, code) for number, identity, code in zip(*(each.tolist() for each in found[:3]), strict=True)
    } == {number: meaning(number) for number in living}
    assert set(found.numbers.tolist()) == living


def test_matches_are_counted() -> None:
    columns = SubscriptionColumns()
    put(columns, [0, 5])
    for numbers, matches in (([0, 0, 5], [1, 1, 1]), ([0, 5], [2, 0])):
        columns.resolve(np.array(numbers, np.int64), np.array(matches, np.int32))
    columns.resolve(np.array([0], np.int64))
    assert columns.counts().matches.tolist() == [4, 1]
    columns.drop(np.array([0], np.int64))
    put(columns, [0])
    assert columns.counts().matches.tolist() == [0, 1]


def test_pages_are_used_again() -> None:
    columns = SubscriptionColumns()
    for page in range(200):
        put(columns, [page * PAGE])
        columns.drop(np.array([page * PAGE], np.int64))
    size = columns.nbytes
    for page in range(200, 600):
        put(columns, [page * PAGE])
        columns.drop(np.array([page * PAGE], np.int64))
    assert columns.nbytes <= size + 8 * 1024  # the table of pages has grown, the pages have not
    assert len(columns) == 0


def test_a_page_that_was_emptied_twice_is_given_away_once() -> None:
    """Emptied while one reads, filled and emptied while another does: only when the second has ended may it go."""
    columns = SubscriptionColumns()
    put(columns, [0])
    first = columns.begin_reading()
    columns.drop(np.array([0], np.int64))
    put(columns, [5])
    second = columns.begin_reading()
    columns.drop(np.array([5], np.int64))
    columns.end_reading(first)
    put(columns, [PAGE])
    put(columns, [2 * PAGE])
    check(columns, {5})
    columns.end_reading(second)
    put(columns, [70 * PAGE])
    put(columns, [3 * PAGE])
    check(columns, {PAGE, 2 * PAGE, 3 * PAGE, 70 * PAGE})
