"""A lock that goes to the most urgent of those who wait for it."""

from __future__ import annotations

import threading
import time

import pytest

from actors.shard import level_lock
from actors.shard.level_lock import LevelLock
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


def test_what_has_waited_long_goes_first_and_gives_way_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    lock, order = LevelLock(), []
    with lock.held(3):
        pass

    def hold(level: int) -> None:
        with lock.held(level):
            order.append(level)

    threads = [threading.Thread(target=hold, args=(level,)) for level in (0, 2, 1, 3)]
    with lock.held(1):
        for count, thread in enumerate(threads, 1):
            thread.start()
            ends = time.monotonic() + 60
            while len(lock._waiters) < count:
                assert time.monotonic() < ends
        monkeypatch.setattr(level_lock, "LONGEST", 0.0)
        offer()
        order.append(1)
    for thread in threads:
        thread.join(60)
    assert order == [1, 0, 2, 1, 3]
