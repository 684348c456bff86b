"""A tail that is scanned for as long as building a block takes becomes a block, by the thread that scans it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.index import merge_policy
from ray_pubsub.index.merge_policy import MergePolicy, is_worth_building, scan_work
from ray_pubsub.index.tail import TailView
from tests.inside_of_index import segmented

EVENT = {"x": 7, "s": "the abc"}


def counted(target: type, name: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Returns a list that gets one member per call of a method."""
    calls: list[Any] = []
    method: Callable[..., Any] = getattr(target, name)

    def counting(self: Any, *given: Any) -> Any:
        calls.append(self)
        return method(self, *given)

    monkeypatch.setattr(target, name, counting)
    return calls


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> MatchIndex:
    """An index whose blocks are worth building after four events."""
    monkeypatch.setattr(merge_policy, "BUILD_WORK", 500)
    monkeypatch.setattr(merge_policy, "CLAUSE_WORK", 1)
    monkeypatch.setattr(merge_policy, "BUILT_SET_WORK", 1)
    index = MatchIndex()
    for number in range(10):
        index.add(number, f"x >= {number} and s like '%{'abc'[number % 3]}%'")
    return index


def test_an_index_that_is_read_becomes_a_block(index: MatchIndex) -> None:
    for _ in range(4):
        assert index.match(EVENT) == list(range(8))
    stats = segmented(index).stats()
    assert stats.tail == 0
    assert [block.clauses for block in stats.blocks] == [10]
    assert index.match(EVENT) == list(range(8))


def test_one_that_is_not_stays_a_tail(index: MatchIndex) -> None:
    index.match(EVENT)
    for number in range(10, 100):
        index.add(number, "x > 3")
    assert segmented(index).stats().tail == 100


def test_what_is_added_next_joins_the_small_block(index: MatchIndex) -> None:
    """Otherwise there would soon be many, each with its share of every match."""
    for number in range(10, 40):
        for _ in range(4):
            assert index.match(EVENT) == [*range(8), *range(10, number)]
        index.add(number, f"x >= 1 and s like '%{'abc'[number % 3]}%'")
    assert len(segmented(index).snapshot.blocks) == 1
    assert index.remove(12)
    assert index.match(EVENT) == [*range(8), 10, 11, *range(13, 40)]


def test_a_batch_is_matched_by_the_block(index: MatchIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    scans = counted(TailView, "match", monkeypatch)
    assert [len(found) for found in index.match_many([EVENT] * 100)] == [8] * 100
    assert not scans


def test_a_reader_does_not_wait_for_a_writer(index: MatchIndex) -> None:
    """While a change is made, the tail is scanned."""
    held, over = threading.Event(), threading.Event()

    def write() -> None:
        with segmented(index).writing:
            held.set()
            over.wait(60)

    writer = threading.Thread(target=write)
    writer.start()
    held.wait(60)
    try:
        for _ in range(4):
            assert index.match(EVENT) == list(range(8))
        assert [len(found) for found in index.match_many([EVENT] * 100)] == [8] * 100
        assert segmented(index).stats().tail == 10
    finally:
        over.set()
        writer.join()
    index.match(EVENT)
    assert segmented(index).stats().tail == 0


def test_in_the_background_a_thread_builds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_policy, "BUILD_WORK", 20)
    monkeypatch.setattr(merge_policy, "CLAUSE_WORK", 1)
    index = MatchIndex(merges="background")
    for number in range(10):
        index.add(number, f"x >= {number}")
    for _ in range(6):
        assert index.match(EVENT) == list(range(8))
    index.wait_for_merges()
    assert segmented(index).stats().tail == 0
    assert index.match(EVENT) == list(range(8))


def test_an_event_meets_a_tail_with_patterns_in_one_call(index: MatchIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    scans = counted(TailView, "match", monkeypatch)
    assert index.match(EVENT) == list(range(8))
    assert index.match({"s": "abc"}) == index.match({"x": 7, "s": 5}) == []
    assert not scans


@pytest.mark.parametrize(
    ("scanned", "clauses", "sets", "others", "worth"),
    [
        (merge_policy.BUILD_WORK - 1, 1, 0, 0, False),
        (scan_work(1000, 1000, 0), 1000, 0, 0, True),
        (scan_work(1000, 10, 0), 10, 0, 0, False),
        (scan_work(50, 500, 500), 500, 500, 0, False),
        (scan_work(50, 500, 500), 50, 50, 0, True),
        (scan_work(50, 500, 500), 50, 50, 800, False),
    ],
)
def test_what_is_worth_building(scanned: int, clauses: int, sets: int, others: int, worth: bool) -> None:
    assert is_worth_building(scanned, clauses, sets, others) is worth


def test_a_full_tail_becomes_a_block_of_its_own() -> None:
    policy = MergePolicy(tail_clauses=100)
    assert policy.joined_to_tail([500, 30, 99, 100], 99) == [1, 2]
    assert policy.joined_to_tail([500, 30, 99, 100], 100) == []
