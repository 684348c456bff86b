"""Sealing and merging in the background: the same answers as inline, bounded waiting, and no failure is lost."""

from __future__ import annotations

import random
import sys
import threading

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.engines.registry import build_of
from ray_pubsub.index.merge_policy import MergePolicy
from ray_pubsub.index.segment_maintenance import MOST_SEALED
from ray_pubsub.index.segmented_index import SegmentedIndex
from ray_pubsub.settings import Limits
from tests.inside_of_index import merge_all, segmented

POLICY = MergePolicy(tail_clauses=1024, growth=8, blocks_per_tier=4)


def text(number: int) -> str:
    return f"x between {number % 100} and {number % 100 + 30} and y != {number % 7}"


def test_it_answers_as_inline_does() -> None:
    one, other = MatchIndex(), MatchIndex(merges="background")
    turns = random.Random(5)
    for number in range(12_000):
        for index in (one, other):
            index.add(number, text(number))
        if number % 3 == 0:
            victim = turns.randrange(number + 1)
            assert one.remove(victim) == other.remove(victim)
        if number % 1500 == 0:
            event = {"x": turns.randrange(130), "y": turns.randrange(8)}
            assert one.match(event) == other.match(event)
    other.wait_for_merges()
    for x in range(0, 130, 10):
        assert one.match({"x": x, "y": 3}) == other.match({"x": x, "y": 3})
    snapshot = segmented(other).snapshot
    assert not snapshot.sealed and len(snapshot.blocks) < 8


def test_an_idle_index_has_no_thread() -> None:
    index = MatchIndex(merges="background")
    for number in range(3000):
        index.add(number, text(number))
    index.wait_for_merges()
    assert not [thread for thread in threading.enumerate() if thread.name == "ray-pubsub-merges"]


def test_changes_wait_for_a_slow_background() -> None:
    """While nothing can be built, a bounded number of tails waits; every change is visible nevertheless."""
    may_build, blocked = threading.Event(), threading.Event()

    def slow(table, vocabulary, frequency):
        blocked.set()
        may_build.wait()
        return build_of("auto", {})(table, vocabulary, frequency)

    index = MatchIndex(merges="background")
    engine = SegmentedIndex(Limits(), slow, POLICY, background=True)
    index._books = index._books._replace(engine=engine)
    most = (MOST_SEALED + 2) * engine.policy.tail_clauses

    def write() -> None:
        for number in range(most):
            index.add(number, "x >= 0")

    writer = threading.Thread(target=write)
    writer.start()
    blocked.wait()
    while len(engine.snapshot.sealed) < MOST_SEALED:
        assert writer.is_alive()
    seen = len(index.match({"x": 1}))
    assert seen >= MOST_SEALED * engine.policy.tail_clauses
    assert len(engine.snapshot.sealed) == MOST_SEALED
    may_build.set()
    writer.join()
    index.wait_for_merges()
    assert len(index.match({"x": 1})) == most


def test_a_failure_in_the_background_reaches_the_writer() -> None:
    def fails(table, vocabulary, frequency):
        raise MemoryError("no room for a block")

    index = MatchIndex(merges="background")
    index._books = index._books._replace(engine=SegmentedIndex(Limits(), fails, POLICY, background=True))
    with pytest.raises(MemoryError, match="no room"):
        for number in range(100_000):
            index.add(number, "x >= 0")
    assert len(index.match({"x": 1})) >= POLICY.tail_clauses


def test_merges_leave_out_what_was_removed_and_keep_what_was_added_meanwhile() -> None:
    """A merge that is under way when a subscription is removed or replaced."""
    building, go_on = threading.Event(), threading.Event()
    calls = []

    def stops_at_the_merge(table, vocabulary, frequency):
        calls.append(table.count)
        if len(calls) == 5:
            building.set()
            go_on.wait()
        return build_of("auto", {})(table, vocabulary, frequency)

    index = MatchIndex(merges="background")
    engine = SegmentedIndex(Limits(), stops_at_the_merge, POLICY, background=True)
    index._books = index._books._replace(engine=engine)
    tail = engine.policy.tail_clauses
    for number in range(4 * tail):
        if number % tail == 0:
            index.wait_for_merges()  # a block of each tail: a thread that is behind would build several tails as one
        index.add(number, "x >= 0")
    building.wait()
    index.remove(5)
    index.add(6, "x < 0")
    index.add("new", "x >= 0")
    assert {5, 6}.isdisjoint(index.match({"x": 1})) and "new" in index.match({"x": 1})
    go_on.set()
    index.wait_for_merges()
    assert len(engine.snapshot.blocks) == 1
    assert {5, 6}.isdisjoint(index.match({"x": 1})) and "new" in index.match({"x": 1})
    assert index.match({"x": -1}) == [6]
    merge_all(engine)
    assert len(index.match({"x": 1})) == 4 * engine.policy.tail_clauses - 2 + 1
    assert not engine.snapshot.filtered, "nothing removed is left, so matches need no second look"


def test_waiting_from_another_thread() -> None:
    """Threads come and go while someone waits for them."""
    index = MatchIndex(merges="background")
    stop, wrong = threading.Event(), []

    def wait() -> None:
        while not stop.is_set():
            try:
                index.wait_for_merges()
            except RuntimeError as error:
                wrong.append(error)
                return

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        waiter = threading.Thread(target=wait)
        waiter.start()
        for turn in range(8):
            index.add_many(range(3000 * turn, 3000 * turn + 3000), ["x = 1"] * 3000)
        stop.set()
        waiter.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_a_failure_reaches_who_waits() -> None:
    def fails(table, vocabulary, frequency):
        raise MemoryError("no room for a block")

    index = MatchIndex(merges="background")
    index._books = index._books._replace(engine=SegmentedIndex(Limits(), fails, POLICY, background=True))
    for number in range(POLICY.tail_clauses):
        index.add(number, "x >= 0")
    with pytest.raises(MemoryError, match="no room"):
        index.wait_for_merges()
    index.wait_for_merges()
    assert len(index.match({"x": 1})) == POLICY.tail_clauses
