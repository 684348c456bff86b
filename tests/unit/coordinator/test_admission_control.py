"""How much is worked on at once: by number, by bytes, and what is refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from actors.coordinator import admission_control
from actors.coordinator.admission_control import AdmissionControl
from ray_pubsub.errors import OverloadedError


def test_by_number() -> None:
    control = AdmissionControl(2, 1000, 0.0)
    with control.admitted(1), control.admitted(1):
        assert (control.inside, control.bytes) == (2, 2)
        with pytest.raises(OverloadedError) as caught, control.admitted(1):
            raise AssertionError
        assert (caught.value.what, caught.value.waiting) == ("batches", 1)
        assert caught.value.retry_after > 0
    with control.admitted(1):
        pass
    assert (control.inside, control.bytes, control.waiting, control.refused) == (0, 0, 0, 1)


def test_by_bytes_and_what_is_too_large_goes_alone() -> None:
    control = AdmissionControl(10, 100, 0.0)
    with control.admitted(60):
        with control.admitted(40):
            pass
        with pytest.raises(OverloadedError), control.admitted(41):
            pass
    with control.admitted(5000), pytest.raises(OverloadedError), control.admitted(0):
        pass
    assert control.refused == 2


def test_who_waits_comes_in_when_another_leaves() -> None:
    control = AdmissionControl(1, 100, 60.0)
    passed = threading.Event()

    def enter() -> None:
        with control.admitted(1):
            passed.set()

    waiting = threading.Thread(target=enter)
    with control.admitted(1):
        waiting.start()
        while not control.waiting:  # until it is there
            pass
        assert not passed.is_set()
    waiting.join(60)
    assert passed.is_set()


def test_a_failure_inside_leaves_too() -> None:
    control = AdmissionControl(1, 100, 0.0)
    with pytest.raises(KeyError), control.admitted(7):
        raise KeyError
    assert (control.inside, control.bytes) == (0, 0)


def test_nobody_waits_for_longer_than_they_say() -> None:
    control = AdmissionControl(1, 100, 3600.0)
    with control.admitted(1), pytest.raises(OverloadedError), control.admitted(1, patience=0.01):
        pass


def wait_until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < ends


def test_the_most_urgent_of_those_who_wait_is_admitted_next() -> None:
    control = AdmissionControl(1, 100, 60.0, levels=4)
    order: list[int] = []

    def enter(level: int) -> None:
        with control.admitted(1, level=level):
            order.append(level)

    threads = [threading.Thread(target=enter, args=(level,)) for level in (0, 2, 1, 3, 2)]
    with control.admitted(1, level=0):
        for count, thread in enumerate(threads, 1):
            thread.start()
            wait_until(lambda count=count: control.waiting == count)  # type: ignore[misc]
    for thread in threads:
        thread.join(60)
    assert order == [3, 2, 2, 1, 0]


def test_low_levels_leave_places_to_higher_ones() -> None:
    control = AdmissionControl(8, 1000, 0.0, levels=4)
    with ExitStack() as stack:
        for level, places in enumerate((2, 2, 2, 2)):
            for _ in range(places):
                stack.enter_context(control.admitted(1, level=level))
            with pytest.raises(OverloadedError):
                stack.enter_context(control.admitted(1, level=level))
        assert control.inside == 8
    assert control.refused_by_level() == [1, 1, 1, 1]


def test_while_urgent_batches_come_low_levels_have_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    control = AdmissionControl(16, 1000, 0.0, levels=4)
    with control.admitted(1, level=3):
        pass
    with control.admitted(1, level=0), pytest.raises(OverloadedError), control.admitted(1, level=0):
        raise AssertionError
    monkeypatch.setattr(admission_control, "URGENT_FOR", 0.0)  # as if that time had passed
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(control.admitted(1, level=0))
        assert control.inside == 4


def test_without_rules_all_places_are_for_all() -> None:
    control = AdmissionControl(8, 1000, 0.0, levels=4)
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(control.admitted(1))
        assert control.inside == 8


def test_low_levels_leave_places_to_wait_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_control, "MOST_WAITING", 4)
    control = AdmissionControl(1, 100, 60.0, levels=2)

    def enter() -> None:
        with control.admitted(1, level=0):
            pass

    waiting = [threading.Thread(target=enter) for _ in range(2)]
    with control.admitted(1, level=1):
        for thread in waiting:
            thread.start()
        wait_until(lambda: control.waiting == 2)
        with pytest.raises(OverloadedError), control.admitted(1, level=0):  # at once, however patient
            raise AssertionError
        with pytest.raises(OverloadedError), control.admitted(1, patience=0.0, level=1):
            raise AssertionError
    for thread in waiting:
        thread.join(60)
    assert control.refused_by_level() == [1, 1]
