"""A lock that goes to the most urgent of those who wait for it."""

from __future__ import annotations

import threading
import time

import pytest

from actors.shard.level_lock import LONGEST, LONGEST_TURN, LevelLock
from ray_pubsub import preemption
from ray_pubsub.preemption import offer, part_of


def test_by_level_and_then_by_arrival() -> None:
    lock, order = LevelLock(), []

    def hold(level: int, name: str) -> None:
        with lock.held(level):
            order.append(name)

    waiting = [(0, "a"), (3, "b"), (1, "c"), (3, "d"), (0, "e")]
    threads = [threading.Thread(target=hold, args=each) for each in waiting]
    with lock.held(0):
        for count, thread in enumerate(threads, 1):
            thread.start()
            ends = time.monotonic() + 60
            while len(lock._waiters) < count:
                assert time.monotonic() < ends
    for thread in threads:
        thread.join(60)
    assert order == ["b", "d", "c", "a", "e"]


def test_a_failure_gives_it_back() -> None:
    lock = LevelLock()
    with pytest.raises(KeyError), lock.held(1):
        raise KeyError
    with lock.held(0):
        pass


def test_a_holder_gives_way_to_more_urgent_ones_between_two_parts_of_its_work() -> None:
    lock, order = LevelLock(), []
    with lock.held(3):
        pass  # from now on it knows that there are more urgent ones than 1

    def hold(level: int) -> None:
        with lock.held(level):
            order.append(level)

    threads = [threading.Thread(target=hold, args=(level,)) for level in (1, 2, 0, 3)]
    with lock.held(1):
        offer()  # nobody waits
        for count, thread in enumerate(threads, 1):
            thread.start()
            ends = time.monotonic() + 60
            while len(lock._waiters) < count:
                assert time.monotonic() < ends
        offer()
        assert order == [3, 2]
        order.append(1)
    for thread in threads:
        thread.join(60)
    assert order == [3, 2, 1, 1, 0]


def test_while_all_have_one_level_nothing_is_cut_into_parts() -> None:
    lock = LevelLock()
    for level, cut in ((0, False), (2, False), (2, False), (0, True)):
        with lock.held(level):
            assert (part_of(1000, preemption.PART) < 1000) is cut


class Clock:
    """Goes on when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Queue:
    """A lock that was asked for at level 3 before, and the threads that wait for it. `order` has their levels in the order in which they
    held it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.lock = LevelLock(self.clock)
        self.order: list[int] = []
        self._threads: list[threading.Thread] = []
        with self.lock.held(3):
            pass

    def wait(self, *levels: int, seconds: float = 0.0) -> None:
        """Returns when a thread of each level waits, one after the other. Each holds the lock for this time."""
        for level in levels:
            self.clock.now += 1e-6
            self._threads.append(threading.Thread(target=self._hold, args=(level, seconds)))
            count = len(self.lock._waiters) + 1
            self._threads[-1].start()
            ends = time.monotonic() + 60
            while len(self.lock._waiters) < count:
                assert time.monotonic() < ends

    def _hold(self, level: int, seconds: float) -> None:
        with self.lock.held(level):
            self.order.append(level)
            self.clock.now += seconds

    def end(self) -> list[int]:
        for thread in self._threads:
            thread.join(60)
        return self.order


def test_who_is_late_takes_turns_with_more_urgent_ones() -> None:
    queue = Queue()
    with queue.lock.held(3):
        queue.wait(0, 2, 0, 3, 3, 3)
        queue.clock.now += LONGEST + 1
    assert queue.end() == [0, 3, 2, 3, 0, 3]


def test_who_is_late_gives_way_after_having_worked_as_long_as_it_has_waited() -> None:
    queue = Queue()
    with queue.lock.held(1):
        queue.clock.now += LONGEST + 1
        queue.wait(3, 3, 3, seconds=LONGEST_TURN / 2)
        offer()
        assert queue.order == [3]  # the first of them is done, then it is this one's turn
        offer()
        queue.clock.now += 0.4 * LONGEST_TURN
        offer()
        assert queue.order == [3]
        queue.clock.now += 0.2 * LONGEST_TURN
        offer()
        assert queue.order == [3, 3]
        queue.order.append(1)
    assert queue.end() == [3, 3, 1, 3]


def test_who_is_late_works_no_longer_than_a_turn() -> None:
    queue = Queue()
    with queue.lock.held(1):
        queue.clock.now += LONGEST + 1
        queue.wait(2, 3, seconds=100 * LONGEST_TURN)
        offer()
        queue.clock.now += 1.1 * LONGEST_TURN
        offer()
        queue.order.append(1)
    assert queue.end() == [3, 2, 1]


def test_who_gives_way_gives_way_to_the_most_urgent() -> None:
    queue = Queue()
    with queue.lock.held(2):
        queue.wait(0)
        queue.clock.now += LONGEST + 1
        queue.wait(3)
        offer()
        queue.order.append(2)
    assert queue.end() == [3, 2, 0]
