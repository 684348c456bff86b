"""Nonsense in any argument is a SettingError that names the argument, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from actors.mailboxes.queue.policy import Strict, Weighted
from actors.mailboxes.queue.priority_queue import PriorityQueue
from ray_pubsub.errors import SettingError
from tests.unit.mailboxes.queue.queue_model import SimulatedClock

NONSENSE = [
    *[None, -1, 1.5, nan, -inf, "x", b"x", True, object(), int, lambda: "now", np.array(3), np.array(["a", "b"])],
    *[{"x": 1}, {"low": "x"}, {1: 2}, {"low", "high"}, [None], [1, None], ["a", 1], [[1]], (1,), [1.0, 2.0]],
]


def queue_with(**settings: Any) -> PriorityQueue:
    queue = PriorityQueue(**{"levels": ["low", "high"], "clock": SimulatedClock(), **settings})
    queue.put("c", 0)
    return queue


def requeue_changed(queue: PriorityQueue, field: str, value: Any) -> None:
    [taken] = queue.take(1).deliveries
    try:
        queue.requeue([taken._replace(**{field: value})])
    finally:
        queue.requeue([taken])


# What is called with the nonsense, and which nonsense makes sense there.
CALLS: dict[str, tuple[Callable[[PriorityQueue, Any], Any], list[Any]]] = {
    "levels": (lambda _, value: queue_with(levels=value), []),
    "deadlines": (lambda _, value: queue_with(deadlines=value), [None, [1.0, 2.0]]),
    "policy": (lambda _, value: queue_with(policy=value), [None]),
    "policy class": (lambda _, value: queue_with(policy=Weighted), []),
    "longest wait": (lambda _, value: queue_with(policy=Strict(value)), [None, 1.5]),
    "weights": (lambda _, value: queue_with(policy=Weighted(value)), [None]),
    "capacity": (lambda _, value: queue_with(capacity=value), [None]),
    "capacity bytes": (lambda _, value: queue_with(capacity_bytes=value), [None]),
    "overflow": (lambda _, value: queue_with(overflow=value), []),
    "expired": (lambda _, value: queue_with(expired=value), []),
    "clock": (lambda _, value: queue_with(clock=value), [int]),
    "put level": (lambda queue, value: queue.put("a", value), []),
    "put enqueued": (lambda queue, value: queue.put("a", 0, enqueued=value), [None, -1, 1.5]),
    "put deadline": (lambda queue, value: queue.put("a", 0, deadline=value), [None, 1.5]),
    "put size": (lambda queue, value: queue.put("a", 0, size=value), []),
    "put_many levels": (lambda queue, value: queue.put_many("ab", value), []),
    "put_many enqueued": (
        lambda queue, value: queue.put_many("ab", 0, enqueued=value),
        [None, -1, 1.5, np.array(3), [1.0, 2.0]],
    ),
    "put_many deadlines": (
        lambda queue, value: queue.put_many("ab", 0, deadlines=value),
        [None, 1.5, np.array(3), [1, None], [1.0, 2.0]],
    ),
    "put_many sizes": (lambda queue, value: queue.put_many("ab", 0, sizes=value), [None, np.array(3)]),
    "runs": (lambda queue, value: queue.put_runs(value), []),
    "a run": (lambda queue, value: queue.put_runs([value]), []),
    "run level": (lambda queue, value: queue.put_runs([(value, "ab", 1)]), []),
    "run sizes": (lambda queue, value: queue.put_runs([(0, "ab", value)]), []),
    "run enqueued": (lambda queue, value: queue.put_runs([(0, "ab", 1)], enqueued=value), [None, -1, 1.5]),
    "has_room count": (lambda queue, value: queue.has_room(value, 1), []),
    "has_room size": (lambda queue, value: queue.has_room(1, value), []),
    "take": (lambda queue, value: queue.take(value), []),
    "requeue": (lambda queue, value: queue.requeue(value), []),
    "requeue one": (lambda queue, value: queue.requeue([value]), []),
    "withdraw": (lambda queue, value: queue.withdraw(value), []),
    "requeue order": (lambda queue, value: requeue_changed(queue, "order", value), []),
    "requeue level": (lambda queue, value: requeue_changed(queue, "level", value), []),
    "requeue size": (lambda queue, value: requeue_changed(queue, "size", value), []),
    "requeue enqueued": (lambda queue, value: requeue_changed(queue, "enqueued", value), [1.5, -inf]),
    "requeue due": (lambda queue, value: requeue_changed(queue, "due", value), [1.5, -inf]),
}


@pytest.mark.parametrize("name", CALLS)
def test_nonsense_is_refused(name: str) -> None:
    call, sensible = CALLS[name]
    queue = queue_with()
    for value in NONSENSE:
        if any(type(value) is type(each) and repr(value) == repr(each) for each in sensible):
            continue
        with pytest.raises(SettingError) as caught:
            call(queue, value)
        assert caught.value.setting
        assert len(queue) == 1


@pytest.mark.parametrize("items", [None, 5, 1.5, object(), np.array(3)], ids=["None", "5", "1.5", "object", "array"])
def test_items_that_are_none(items: Any) -> None:
    queue = queue_with()
    with pytest.raises(SettingError, match="items"):
        queue.put_many(items, 0)
    with pytest.raises(SettingError, match="items"):
        queue.put_runs([(0, items, 1)])
    assert len(queue) == 1


@pytest.mark.parametrize("items", [{"a": 1, "b": 2}, {"a", "b"}, iter("ab")], ids=["dict", "set", "iterator"])
def test_the_items_of_a_run_are_in_order(items: Any) -> None:
    with pytest.raises(SettingError, match="items"):
        queue_with().put_runs([(0, items, 1)])
