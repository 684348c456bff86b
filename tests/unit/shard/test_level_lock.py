"""A lock that goes to the most urgent of those who wait for it."""

from __future__ import annotations

import threading
import time

import pytest

from actors.shard.level_lock import LevelLock


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
