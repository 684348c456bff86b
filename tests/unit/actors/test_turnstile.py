"""How much is worked on at once: by number, by bytes, and what is refused."""

from __future__ import annotations

import threading

import pytest

from actors.turnstile import Turnstile
from ray_pubsub.errors import OverloadedError


def test_by_number() -> None:
    turn = Turnstile(2, 1000, 0.0)
    with turn.passed(1), turn.passed(1):
        assert (turn.inside, turn.bytes) == (2, 2)
        with pytest.raises(OverloadedError) as caught, turn.passed(1):
            raise AssertionError
        assert (caught.value.what, caught.value.waiting) == ("batches", 1)
        assert caught.value.retry_after > 0
    with turn.passed(1):
        pass
    assert (turn.inside, turn.bytes, turn.waiting, turn.refused) == (0, 0, 0, 1)


def test_by_bytes_and_what_is_too_large_goes_alone() -> None:
    turn = Turnstile(10, 100, 0.0)
    with turn.passed(60):
        with turn.passed(40):
            pass
        with pytest.raises(OverloadedError), turn.passed(41):
            pass
    with turn.passed(5000), pytest.raises(OverloadedError), turn.passed(0):
        pass
    assert turn.refused == 2


def test_who_waits_comes_in_when_another_leaves() -> None:
    turn = Turnstile(1, 100, 60.0)
    passed = threading.Event()

    def enter() -> None:
        with turn.passed(1):
            passed.set()

    waiting = threading.Thread(target=enter)
    with turn.passed(1):
        waiting.start()
        while not turn.waiting:  # until it is there
            pass
        assert not passed.is_set()
    waiting.join(60)
    assert passed.is_set()


def test_a_failure_inside_leaves_too() -> None:
    turn = Turnstile(1, 100, 0.0)
    with pytest.raises(KeyError), turn.passed(7):
        raise KeyError
    assert (turn.inside, turn.bytes) == (0, 0)


def test_nobody_waits_for_longer_than_they_say() -> None:
    turn = Turnstile(1, 100, 3600.0)
    with turn.passed(1), pytest.raises(OverloadedError), turn.passed(1, patience=0.01):
        pass
