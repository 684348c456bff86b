"""The queue's promises one by one, on a clock that the test sets."""

from __future__ import annotations

from math import nan
from typing import Any

import numpy as np
import pytest

from actors.mailboxes.queue.priority_queue import PriorityQueue
from actors.mailboxes.settings import MailboxSettings
from ray_pubsub.errors import SettingError
from tests.unit.mailboxes.queue.putting import put, put_each
from tests.unit.mailboxes.queue.queue_model import SimulatedClock

LEVELS = ["low", "high"]


def items(entries: Any) -> list[Any]:
    return [entry.item for entry in entries]


def edor(queue: PriorityQueue) -> dict[str, float | None]:
    return {stats.level: stats.edor for stats in queue.stats()}


def test_on_time_rate() -> None:
    """Of eight: 3 on time (one in its last instant), 2 late, 1 dropped, 2 overdue; 1 is not due and does not count."""
    clock = SimulatedClock()
    queue = PriorityQueue(["only"], deadlines=[1.0], capacity=3, overflow="drop-oldest", clock=clock)
    assert edor(queue) == {"only": None}
    put_each(queue, "ab", 0)
    queue.take(2)
    put(queue, "c", 0)
    clock.now = 1.0
    assert queue.take(1).deliveries[0].on_time
    assert edor(queue) == {"only": 1.0}
    put_each(queue, "de", 0)
    clock.now = 2.25
    assert [delivery.on_time for delivery in queue.take(2).deliveries] == [False, False]
    put_each(queue, "fgh", 0)
    clock.now = 3.5
    assert items(put(queue, "i", 0).lost) == ["f"]
    [stats] = queue.stats()
    assert (stats.on_time, stats.late, stats.expired, stats.dropped, stats.overdue) == (3, 2, 0, 1, 2)
    assert stats.waiting == 3
    assert stats.edor == edor(queue)["only"] == 3 / 8


def test_what_expires_counts_against_the_rate() -> None:
    clock = SimulatedClock()
    queue = PriorityQueue(["only"], deadlines=[1.0], expired="drop", clock=clock)
    put(queue, "too late", 0, enqueued=-0.5)
    put(queue, "in time", 0)
    clock.now = 0.75
    taken = queue.take(2)
    assert (items(taken.deliveries), items(taken.lost)) == (["in time"], ["too late"])
    assert edor(queue) == {"only": 0.5}


def test_a_level_without_a_deadline_is_on_time_whenever_it_is_delivered() -> None:
    clock = SimulatedClock()
    queue = PriorityQueue(LEVELS, deadlines={"high": 1}, clock=clock)
    put_each(queue, ["a", "b"], [0, 1])
    clock.now = 1e9
    assert items(queue.take(2).deliveries) == ["b", "a"]
    assert edor(queue) == {"low": 1.0, "high": 0.0}


def test_a_requeued_entry_counts_once_by_its_last_delivery() -> None:
    clock = SimulatedClock()
    queue = PriorityQueue(["only"], deadlines=[1.0], clock=clock)
    put_each(queue, ["a", "b", "c"], 0)
    first = queue.take(2).deliveries
    assert queue.requeue(reversed(first)) == 2
    clock.now = 2.0
    again = queue.take(3).deliveries
    assert items(again) == ["a", "b", "c"]
    assert [delivery[:6] for delivery in again[:2]] == [delivery[:6] for delivery in first]
    [stats] = queue.stats()
    assert (stats.put, stats.on_time, stats.late, stats.requeued, stats.edor) == (3, 0, 3, 2, 0.0)


def test_redelivery_is_not_refused_by_a_full_queue() -> None:
    queue = PriorityQueue(["only"], capacity=2, clock=SimulatedClock())
    put_each(queue, ["a", "b"], 0)
    taken = queue.take(2).deliveries
    put_each(queue, ["c", "d"], 0)
    queue.requeue(taken)
    assert len(queue) == 4
    assert list(put(queue, "e", 0).rejected) == [0]
    assert items(queue.take(9).deliveries) == ["a", "b", "c", "d"]


def test_rejected_items_are_named_by_position() -> None:
    queue = PriorityQueue(LEVELS, capacity=3, capacity_bytes=10, clock=SimulatedClock())
    admission = put_each(queue, "abcde", [0, 1, 0, 1, 0], sizes=[6, 5, 11, 4, 0])
    assert list(admission.rejected) == [1, 2]
    assert items(queue.take(9).deliveries) == ["d", "a", "e"]
    assert [stats.rejected for stats in queue.stats()] == [1, 1]


def test_the_oldest_makes_room_whatever_its_level() -> None:
    queue = PriorityQueue(LEVELS, capacity=2, overflow="drop-oldest", clock=SimulatedClock())
    put_each(queue, ["high", "low"], [1, 0])
    assert [(lost.item, lost.reason) for lost in put(queue, "new", 0).lost] == [("high", "dropped")]


def test_the_lowest_makes_room_even_if_it_is_the_new_one() -> None:
    queue = PriorityQueue(LEVELS, capacity=2, overflow="drop-lowest", clock=SimulatedClock())
    put_each(queue, ["low", "high"], [0, 1])
    assert items(put(queue, "second high", 1).lost) == ["low"]
    admission = put(queue, "second low", 0)
    assert (admission.accepted, items(admission.lost)) == (1, ["second low"])
    assert items(queue.take(9).deliveries) == ["high", "second high"]


def test_an_item_that_can_never_fit_moves_nobody_out() -> None:
    queue = PriorityQueue(LEVELS, capacity_bytes=10, overflow="drop-oldest", clock=SimulatedClock())
    put(queue, "small", 0, size=10)
    admission = put(queue, "huge", 1, size=11)
    assert (list(admission.rejected), list(admission.lost), len(queue)) == ([0], [], 1)


def test_the_expired_make_room_first() -> None:
    clock = SimulatedClock()
    queue = PriorityQueue(
        LEVELS, deadlines={"high": 1.0}, capacity=2, overflow="drop-lowest", expired="drop", clock=clock
    )
    put_each(queue, ["low", "high"], [0, 1])
    clock.now = 2.0
    assert [(lost.item, lost.reason) for lost in put(queue, "new", 0).lost] == [("high", "expired")]


def test_items_are_never_compared() -> None:
    class Incomparable:
        __eq__ = __hash__ = None  # type: ignore[assignment]

    queue = PriorityQueue(LEVELS, clock=SimulatedClock())
    put_each(queue, [Incomparable() for _ in range(5)], 0)
    queue.requeue(queue.take(3).deliveries)
    queue.requeue(queue.take(5).deliveries)
    assert [delivery.order for delivery in queue.take(5).deliveries] == list(range(5))


def test_a_clock_that_goes_back_stands_still() -> None:
    clock = SimulatedClock()
    clock.now = 10.0
    queue = PriorityQueue(LEVELS, deadlines=[1, 1], clock=clock)
    put(queue, "a", 0)
    clock.now = 5.0
    put(queue, "b", 0)
    assert [(delivery.enqueued, delivery.taken) for delivery in queue.take(2).deliveries] == [(10.0, 10.0)] * 2


def test_nothing_was_enqueued_in_the_future() -> None:
    queue = PriorityQueue(LEVELS, deadlines=[1, 1], clock=SimulatedClock())
    put(queue, "a", 0, enqueued=50.0)
    assert queue.take(1).deliveries[0].due == 1.0


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"levels": []}, "levels"),
        ({"levels": "low"}, "levels"),
        ({"levels": ["a", "a"]}, "levels"),
        ({"deadlines": [1]}, "deadlines"),
        ({"deadlines": {"middle": 1}}, "deadlines"),
        ({"deadlines": [1, -1]}, "deadlines"),
        ({"deadlines": [1, nan]}, "deadlines"),
        ({"weights": [1]}, "weights"),
        ({"weights": [1, 0]}, "weights"),
        ({"weights": {"middle": 2}}, "weights"),
        ({"weights": [1, 1], "longest_wait": 1.0}, "weights"),
        ({"longest_wait": -1.0}, "longest_wait"),
        ({"overflow": np.array(["reject", "drop-oldest"])}, "overflow"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], setting: str) -> None:
    """The settings of mailboxes check them, for all queues at once."""
    with pytest.raises(SettingError) as caught:
        MailboxSettings(**{"levels": LEVELS, **settings})
    assert caught.value.setting == setting
