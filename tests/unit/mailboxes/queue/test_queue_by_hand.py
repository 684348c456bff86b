"""The queue's promises one by one, on a clock that the test sets."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np
import pytest

from actors.mailboxes.queue.entries import Lost
from actors.mailboxes.queue.policy import Strict, Weighted
from actors.mailboxes.queue.priority_queue import PriorityQueue
from ray_pubsub.errors import SettingError
from tests.unit.mailboxes.queue.queue_model import SimulatedClock

LEVELS = ["low", "high"]


def items(entries: Any) -> list[Any]:
    return [entry.item for entry in entries]


def test_on_time_rate() -> None:
    """Of ten: 4 on time (one in its last instant), 2 late, 1 expired, 1 dropped, 1 overdue; 1 is not due and does not count."""
    clock = SimulatedClock()
    queue = PriorityQueue(["only"], deadlines=[1.0], capacity=4, overflow="drop-oldest", clock=clock)
    assert queue.edor() == {"only": None}
    queue.put_many("abc", 0)
    queue.take(3)
    queue.put("d", 0)
    clock.now = 1.0
    assert queue.take(1).deliveries[0].on_time
    assert queue.edor() == {"only": 1.0}
    queue.put_many("ef", 0)
    clock.now = 2.25
    assert [delivery.on_time for delivery in queue.take(2).deliveries] == [False, False]
    queue.put("g", 0, deadline=0.25)
    clock.now = 2.75
    assert items(queue.expire()) == ["g"]
    queue.put_many("hijk", 0, deadlines=[inf, 0.5, 1.0, 1.0])
    assert items(queue.put("l", 0, deadline=9.0).lost) == ["h"]
    clock.now = 3.5
    [stats] = queue.stats()
    assert (stats.on_time, stats.late, stats.expired, stats.dropped, stats.overdue) == (4, 2, 1, 1, 1)
    assert stats.waiting == 4
    assert stats.edor == queue.edor()["only"] == 4 / 9


def test_a_level_without_a_deadline_is_on_time_whenever_it_is_delivered() -> None:
    clock = SimulatedClock()
    queue = PriorityQueue(LEVELS, deadlines={"high": 1}, clock=clock)
    queue.put_many(["a", "b"], [0, 1])
    clock.now = 1e9
    assert items(queue.take(2).deliveries) == ["b", "a"]
    assert queue.edor() == {"low": 1.0, "high": 0.0}


def test_a_requeued_entry_counts_once_by_its_last_delivery() -> None:
    clock = SimulatedClock()
    queue = PriorityQueue(["only"], deadlines=[1.0], clock=clock)
    queue.put_many(["a", "b", "c"], 0)
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
    queue.put_many(["a", "b"], 0)
    taken = queue.take(2).deliveries
    queue.put_many(["c", "d"], 0)
    queue.requeue(taken)
    assert len(queue) == 4
    assert list(queue.put("e", 0).rejected) == [0]
    assert items(queue.take(9).deliveries) == ["a", "b", "c", "d"]


def test_rejected_items_are_named_by_position() -> None:
    queue = PriorityQueue(LEVELS, capacity=3, capacity_bytes=10, clock=SimulatedClock())
    admission = queue.put_many("abcde", [0, 1, 0, 1, 0], sizes=[6, 5, 11, 4, 0])
    assert list(admission.rejected) == [1, 2]
    assert items(queue.take(9).deliveries) == ["d", "a", "e"]
    assert [stats.rejected for stats in queue.stats()] == [1, 1]


def test_the_oldest_makes_room_whatever_its_level() -> None:
    queue = PriorityQueue(LEVELS, capacity=2, overflow="drop-oldest", clock=SimulatedClock())
    queue.put_many(["high", "low"], [1, 0])
    assert [(lost.item, lost.reason) for lost in queue.put("new", 0).lost] == [("high", "dropped")]


def test_the_lowest_makes_room_even_if_it_is_the_new_one() -> None:
    queue = PriorityQueue(LEVELS, capacity=2, overflow="drop-lowest", clock=SimulatedClock())
    queue.put_many(["low", "high"], [0, 1])
    assert items(queue.put("second high", 1).lost) == ["low"]
    admission = queue.put("second low", 0)
    assert (admission.accepted, items(admission.lost)) == (1, ["second low"])
    assert items(queue.take(9).deliveries) == ["high", "second high"]


def test_an_item_that_can_never_fit_moves_nobody_out() -> None:
    queue = PriorityQueue(LEVELS, capacity_bytes=10, overflow="drop-oldest", clock=SimulatedClock())
    queue.put("small", 0, size=10)
    admission = queue.put("huge", 1, size=11)
    assert (list(admission.rejected), list(admission.lost), len(queue)) == ([0], [], 1)


def test_the_expired_make_room_first() -> None:
    clock = SimulatedClock()
    queue = PriorityQueue(
        LEVELS, deadlines={"high": 1.0}, capacity=2, overflow="drop-lowest", expired="drop", clock=clock
    )
    queue.put_many(["low", "high"], [0, 1])
    clock.now = 2.0
    assert [(lost.item, lost.reason) for lost in queue.put("new", 0).lost] == [("high", "expired")]


def test_levels_and_sizes_may_be_arrays() -> None:
    queue = PriorityQueue(LEVELS, clock=SimulatedClock())
    queue.put_many("abc", np.array([0, 1, 1], dtype=np.int8), sizes=np.array([1, 2, 3]))
    queue.put("d", np.int64(1))  # type: ignore[arg-type]
    deliveries = queue.take(4).deliveries
    assert [(delivery.item, delivery.level, delivery.size) for delivery in deliveries] == [
        ("b", 1, 2),
        ("c", 1, 3),
        ("d", 1, 0),
        ("a", 0, 1),
    ]
    assert {type(delivery.level) for delivery in deliveries} == {int}


def test_items_are_never_compared() -> None:
    class Incomparable:
        __eq__ = __hash__ = None  # type: ignore[assignment]

    queue = PriorityQueue(LEVELS, clock=SimulatedClock())
    queue.put_many([Incomparable() for _ in range(5)], 0)
    queue.requeue(queue.take(3).deliveries)
    queue.requeue(queue.take(5).deliveries)
    assert [delivery.order for delivery in queue.take(5).deliveries] == list(range(5))


def test_a_clock_that_goes_back_stands_still() -> None:
    clock = SimulatedClock()
    clock.now = 10.0
    queue = PriorityQueue(LEVELS, deadlines=[1, 1], clock=clock)
    queue.put("a", 0)
    clock.now = 5.0
    queue.put("b", 0)
    assert [(delivery.enqueued, delivery.taken) for delivery in queue.take(2).deliveries] == [(10.0, 10.0)] * 2


def test_nothing_was_enqueued_in_the_future() -> None:
    queue = PriorityQueue(LEVELS, deadlines=[1, 1], clock=SimulatedClock())
    queue.put("a", 0, enqueued=50.0)
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
        ({"capacity": 0}, "capacity"),
        ({"capacity_bytes": 1.5}, "capacity_bytes"),
        ({"overflow": "drop"}, "overflow"),
        ({"expired": "ignore"}, "expired"),
        ({"policy": Weighted([1])}, "weights"),
        ({"policy": Weighted([1, 0])}, "weights"),
        ({"policy": Weighted({"middle": 2})}, "weights"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], setting: str) -> None:
    with pytest.raises(SettingError) as caught:
        PriorityQueue(**{"levels": LEVELS, **settings})
    assert caught.value.setting == setting


def test_wrong_longest_wait() -> None:
    with pytest.raises(SettingError):
        Strict(-1.0)


@pytest.mark.parametrize(
    "arguments",
    [
        {"levels": [0, 2]},
        {"levels": [0, -1]},
        {"levels": [0, 1.0]},
        {"levels": [0]},
        {"levels": "high"},
        {"enqueued": [0.0, nan]},
        {"enqueued": [0.0, -inf]},
        {"enqueued": [0.0, "now"]},
        {"deadlines": [1.0, -1.0]},
        {"deadlines": [1.0]},
        {"sizes": [1, -1]},
        {"sizes": [1, 1.5]},
    ],
    ids=str,
)
def test_a_bad_batch_is_refused_whole(arguments: dict[str, Any]) -> None:
    queue = PriorityQueue(LEVELS, clock=SimulatedClock())
    with pytest.raises(SettingError):
        queue.put_many(["a", "b"], **{"levels": [0, 1], **arguments})
    assert (len(queue), queue.waiting_bytes, [stats.put for stats in queue.stats()]) == (0, 0, [0, 0])


@pytest.mark.parametrize("level", [-1, 2, 0.5, "high", None])
def test_a_bad_level_is_refused(level: Any) -> None:
    with pytest.raises(SettingError):
        PriorityQueue(LEVELS).put("a", level)


@pytest.mark.parametrize("count", [-1, 1.0, True])
def test_a_bad_count_is_refused(count: Any) -> None:
    with pytest.raises(SettingError):
        PriorityQueue(LEVELS).take(count)


def test_only_deliveries_of_this_queue_come_back() -> None:
    queue = PriorityQueue(LEVELS, clock=SimulatedClock())
    queue.put_many(["a", "b"], 0)
    [taken] = queue.take(1).deliveries
    queue.put("c", 0)
    for strange in (
        "a",
        taken[:6],
        Lost(*taken, "dropped"),
        taken._replace(order=1),
        taken._replace(order=9),
        taken._replace(level=2),
    ):
        with pytest.raises(SettingError):
            queue.requeue([taken, strange])  # type: ignore[list-item]
    assert [delivery.item for delivery in queue.take(9).deliveries] == ["b", "c"]


def test_what_a_batch_is_made_of_may_use_the_queue() -> None:
    queue = PriorityQueue(LEVELS, clock=SimulatedClock())
    queue.put_many("abc", 0)
    queue.put_many((delivery.item for _ in range(3) for delivery in queue.take(1).deliveries), 1)
    assert [(delivery.item, delivery.level) for delivery in queue.take(9).deliveries] == [("a", 1), ("b", 1), ("c", 1)]
