"""Mailboxes, one behaviour at a time."""

from __future__ import annotations

import datetime
import decimal
import pickle
from typing import Any

import numpy as np
import pytest

from actors.mailboxes.delivery import Receipt
from actors.mailboxes.delivery_batch import DeliveryBatch
from actors.mailboxes.mailboxes import Mailboxes
from actors.mailboxes.settings import MailboxSettings
from ray_pubsub.errors import EventError, OverloadedError, SettingError
from tests.unit.mailboxes.delivery_samples import SimulatedClock, batch_of, one_each

LEVELS = ["low", "middle", "high"]


def boxes(clock: SimulatedClock | None = None, **settings: Any) -> Mailboxes:
    return Mailboxes(settings=MailboxSettings(levels=LEVELS, **settings), clock=clock or SimulatedClock())


def subscriptions(found: Any) -> list[Any]:
    return [message.subscription_id for message in found]


def reasons(report: Any) -> list[str]:
    return [stale.reason for stale in report.stale]


def test_a_message_tells_everything() -> None:
    clock = SimulatedClock()
    mailboxes = boxes(clock, deadlines={"high": 5.0}, visibility_timeout=30.0)
    mailboxes.introduce({7: "desk-7"})
    report = mailboxes.deliver(batch_of((0, "s1", 7, 2), events=["e1"], contents=[{"price": 5, "who": "x"}]))
    assert (report.delivered, report.duplicates, report.dead, report.dropped, len(report.rejected)) == (1, 0, 0, 0, 0)
    clock.now += 1
    [message] = mailboxes.poll("desk-7").deliveries()
    assert (message.subscriber, message.subscriber_code, message.subscription_id) == ("desk-7", 7, "s1")
    assert (message.event_id, message.event, message.level, message.priority) == (
        "e1",
        {"price": 5, "who": "x"},
        2,
        "high",
    )
    assert (message.enqueued, message.due, message.deadline, message.visible_until) == (1000.0, 1005.0, 1005.0, 1031.0)
    assert (message.attempt, message.delivery_id) == (1, (7, message.sequence))
    assert pickle.loads(pickle.dumps(message)) == message
    assert mailboxes.ack("desk-7", message).accepted == 1
    assert mailboxes.poll("desk-7").deliveries() == []


def test_by_priority_then_in_order() -> None:
    mailboxes = boxes()
    mailboxes.deliver(batch_of((0, "a", 1, 0), (0, "b", 1, 2), (1, "c", 1, 1), (1, "d", 1, 2), (1, "other", 2, 2)))
    mailboxes.deliver(batch_of((0, "e", 1, 2)))
    assert subscriptions(mailboxes.poll(1, 2).deliveries()) == ["b", "d"]
    assert subscriptions(mailboxes.poll(1).deliveries()) == ["e", "c", "a"]
    assert subscriptions(mailboxes.poll(2).deliveries()) == ["other"]


def test_by_the_policy_given() -> None:
    mailboxes = boxes(weights=[1, 1, 2])
    mailboxes.deliver(
        batch_of(*((0, f"low {at}", 1, 0) for at in range(2)), *((0, f"high {at}", 1, 2) for at in range(4)))
    )
    assert subscriptions(mailboxes.poll(1).deliveries()) == ["high 0", "high 1", "low 0", "high 2", "high 3", "low 1"]


def test_what_is_in_flight_is_nobody_elses_until_the_timeout() -> None:
    clock = SimulatedClock()
    mailboxes = boxes(clock, visibility_timeout=10.0)
    mailboxes.deliver(one_each(1, 3))
    [first] = mailboxes.poll(1, 1).deliveries()
    assert subscriptions(mailboxes.poll(1).deliveries()) == [1, 2]
    clock.now += 10
    again = mailboxes.poll(1).deliveries()
    assert [(message.subscription_id, message.attempt) for message in again] == [(0, 2), (1, 2), (2, 2)]
    assert again[0].sequence == first.sequence and again[0].receipt != first.receipt
    assert mailboxes.stats_of(1).redeliveries == 3


def test_a_late_ack_does_not_ack_the_newer_attempt() -> None:
    clock = SimulatedClock()
    mailboxes = boxes(clock, visibility_timeout=10.0)
    mailboxes.deliver(one_each(1, 1))
    [old] = mailboxes.poll(1).deliveries()
    clock.now += 10
    [new] = mailboxes.poll(1).deliveries()
    report = mailboxes.ack(1, [old])
    assert (report.accepted, reasons(report)) == (0, ["redelivered"])
    assert reasons(mailboxes.nack(1, [old])) == ["redelivered"]
    assert reasons(mailboxes.extend(1, [old], 5)) == ["redelivered"]
    assert mailboxes.ack(1, [new]).accepted == 1
    assert reasons(mailboxes.ack(1, [old, new])) == ["settled", "settled"]
    assert mailboxes.stats_of(1).stale == 5


def test_a_late_ack_is_good_while_nobody_else_was_given_the_delivery() -> None:
    clock = SimulatedClock()
    mailboxes = boxes(clock, visibility_timeout=10.0, deadlines=[1.0, 1.0, 1.0])
    mailboxes.deliver(one_each(1, 5))
    found = mailboxes.poll(1).deliveries()
    clock.now += 10
    assert mailboxes.stats_of(1).waiting == 5
    assert mailboxes.ack(1, found[1:4]).accepted == 3
    assert subscriptions(mailboxes.poll(1).deliveries()) == [0, 4]
    stats = mailboxes.stats_of(1)
    assert (stats.acked, stats.in_flight, stats.waiting) == (3, 2, 0)
    assert stats.on_time["low"] == 3 / 5  # the two that came again were late


def test_what_is_stale_says_why() -> None:
    clock = SimulatedClock()
    mailboxes = boxes(clock, delivery_limit=1)
    mailboxes.deliver(one_each(1, 3))
    mailboxes.deliver(one_each(2, 1))
    acked, dead, held = mailboxes.poll(1).deliveries()
    mailboxes.ack(1, acked)
    mailboxes.nack(1, dead)
    report = mailboxes.ack(1, [acked, dead, Receipt(held.sequence, held.lease + 10**6), Receipt(held.sequence, 0)])
    assert reasons(report) == ["settled", "dead", "unknown", "unknown"]
    assert [stale.position for stale in report.stale] == [0, 1, 2, 3]
    assert reasons(mailboxes.ack("nobody", held)) == ["unknown"]
    assert mailboxes.ack(1, np.array([held.receipt])).accepted == 1


def test_another_mailboxes_receipt_does_nothing() -> None:
    mailboxes = boxes()
    mailboxes.deliver(batch_of((0, "a", 1, 0), (0, "b", 2, 0)))
    [mine], [theirs] = mailboxes.poll(1).deliveries(), mailboxes.poll(2).deliveries()
    assert mailboxes.ack(1, theirs).accepted == 0
    assert mailboxes.stats_of(2).in_flight == 1
    assert mailboxes.ack(1, mine).accepted == 1


def test_nack_brings_it_back_where_it_stood() -> None:
    mailboxes = boxes()
    mailboxes.deliver(one_each(1, 4))
    found = mailboxes.poll(1, 3).deliveries()
    assert mailboxes.nack(1, [found[2], found[0]]).accepted == 2
    assert [(message.subscription_id, message.attempt) for message in mailboxes.poll(1).deliveries()] == [
        (0, 2),
        (2, 2),
        (3, 1),
    ]


def test_nack_with_a_delay() -> None:
    clock = SimulatedClock()
    mailboxes = boxes(clock, visibility_timeout=100.0)
    mailboxes.deliver(one_each(1, 2))
    first, _ = mailboxes.poll(1).deliveries()
    mailboxes.nack(1, first, delay=5)
    stats = mailboxes.stats_of(1)
    assert (stats.waiting, stats.delayed, stats.in_flight) == (1, 1, 1)
    assert reasons(mailboxes.ack(1, first)) == ["redelivered"]
    clock.now += 4.9
    assert mailboxes.poll(1).deliveries() == []
    clock.now += 0.1
    assert [(message.subscription_id, message.attempt) for message in mailboxes.poll(1).deliveries()] == [(0, 2)]


def test_extend() -> None:
    clock = SimulatedClock()
    mailboxes = boxes(clock, visibility_timeout=10.0)
    mailboxes.deliver(one_each(1, 2))
    found = mailboxes.poll(1).deliveries()
    clock.now += 9
    assert mailboxes.extend(1, found[0], 10).accepted == 1
    clock.now += 9
    assert subscriptions(mailboxes.poll(1).deliveries()) == [1]
    clock.now += 1
    assert subscriptions(mailboxes.poll(1).deliveries()) == [0]


def test_release_is_no_attempt() -> None:
    mailboxes = boxes(delivery_limit=2)
    mailboxes.deliver(one_each(1, 1))
    for _ in range(5):
        [message] = mailboxes.poll(1).deliveries()
        assert message.attempt == 1
        mailboxes.release(1, message)
        assert reasons(mailboxes.ack(1, message)) == ["redelivered"]


def test_after_the_last_attempt_a_dead_letter() -> None:
    clock = SimulatedClock()
    mailboxes = boxes(clock, delivery_limit=2, visibility_timeout=10.0)
    mailboxes.deliver(one_each(1, 2, level=1, contents=[{"x": 1}, {"x": 2}]))
    mailboxes.nack(1, mailboxes.poll(1).deliveries())
    mailboxes.nack(1, mailboxes.poll(1, 1).deliveries(), reason="no such printer")
    mailboxes.poll(1).deliveries()
    clock.now += 10
    first, second = mailboxes.dead_letters(1)
    assert (first.reason, first.attempts, first.died, first.event, first.priority) == (
        "no such printer",
        2,
        1000.0,
        {"x": 1},
        "middle",
    )
    assert (second.reason, second.attempts, second.died, second.event) == ("timed out", 2, 1010.0, {"x": 2})
    assert mailboxes.dead_letters(1, limit=1) == [first]
    assert mailboxes.poll(1).deliveries() == []
    assert mailboxes.redrive(1, [first.sequence, 10**9]) == 1
    [again] = mailboxes.poll(1).deliveries()
    assert (again.subscription_id, again.attempt, again.enqueued) == (0, 1, 1010.0)
    assert mailboxes.ack(1, again).accepted == 1
    assert mailboxes.purge_dead(1) == 1
    assert mailboxes.dead_letters(1) == []
    stats = mailboxes.stats_of(1)
    assert (stats.delivered, stats.acked, stats.dropped, stats.dead) == (2, 1, 1, 0)


def test_dead_letters_are_bounded() -> None:
    mailboxes = boxes(delivery_limit=1, dead_capacity=2)
    mailboxes.deliver(one_each(1, 5))
    mailboxes.nack(1, mailboxes.poll(1).deliveries())
    assert [letter.subscription_id for letter in mailboxes.dead_letters(1)] == [3, 4]
    stats = mailboxes.stats_of(1)
    assert (stats.dead, stats.dropped) == (2, 3)


def test_no_delivery_limit() -> None:
    mailboxes = boxes(delivery_limit=None)
    mailboxes.deliver(one_each(1, 1))
    for attempt in range(1, 50):
        [message] = mailboxes.poll(1).deliveries()
        assert message.attempt == attempt
        mailboxes.nack(1, message)


def test_a_full_mailbox_rejects_and_harms_no_other() -> None:
    mailboxes = boxes(capacity=2)
    mailboxes.introduce({1: "slow"})
    full = batch_of((0, "a", 1, 0), (1, "b", 1, 0), (2, "c", 1, 2), (2, "d", 2, 0), keys=["k0", "k1", "k2"])
    report = mailboxes.deliver(full)
    assert (report.delivered, report.rejected.tolist(), report.rejected_subscribers) == (3, [1], ("slow",))
    with pytest.raises(OverloadedError, match="'slow'") as caught:
        report.raise_if_rejected(retry_after=2.5)
    assert (caught.value.waiting, caught.value.retry_after) == (2, 2.5)
    assert subscriptions(mailboxes.poll(2).deliveries()) == ["d"]
    again = mailboxes.deliver(full)
    assert (again.delivered, again.duplicates, again.rejected.tolist()) == (0, 3, [1])
    mailboxes.ack(1, mailboxes.poll(1).deliveries())
    again = mailboxes.deliver(full)
    assert (again.delivered, again.duplicates, again.rejected.tolist()) == (1, 3, [])
    again.raise_if_rejected()
    assert mailboxes.deliver(full).duplicates == 4
    assert subscriptions(mailboxes.poll(1).deliveries()) == ["b"]
    stats = mailboxes.stats_of("slow")
    assert (stats.rejected, stats.duplicates, stats.delivered) == (2, 7, 3)


def test_what_was_rejected_of_a_batch_with_one_key_is_tried_again() -> None:
    mailboxes = boxes(capacity=1)
    full = batch_of((0, "a", 1, 0), (1, "a", 1, 0), key="batch 1")
    assert mailboxes.deliver(full).rejected.tolist() == [1]
    mailboxes.ack(1, mailboxes.poll(1).deliveries())
    report = mailboxes.deliver(full)
    assert (report.delivered, report.duplicates) == (1, 1)
    assert [message.event_id for message in mailboxes.poll(1).deliveries()] == [1]
    assert mailboxes.deliver(full).duplicates == 2
    assert mailboxes.deliver(batch_of((0, "a", 2, 0), keys=["batch 1"])).delivered == 1  # another kind of key


@pytest.mark.parametrize(
    ("overflow", "left", "dead"),
    [("drop-oldest", [3, 4], []), ("drop-lowest", [0, 4], []), ("dead-letter", [0, 1], [3, 4])],
)
def test_overflow(overflow: str, left: list[int], dead: list[int]) -> None:
    mailboxes = boxes(capacity=2, overflow=overflow)
    mailboxes.deliver(batch_of((0, 0, 1, 2), (1, 1, 1, 0)))
    report = mailboxes.deliver(batch_of((0, 3, 1, 1), (1, 4, 1, 1)))
    assert sorted(subscriptions(mailboxes.poll(1).deliveries())) == left
    assert [letter.subscription_id for letter in mailboxes.dead_letters(1)] == dead
    assert {letter.reason for letter in mailboxes.dead_letters(1)} <= {"overflow"}
    assert (report.dead, report.dropped, len(report.rejected)) == (len(dead), 2 - len(dead), 0)
    assert mailboxes.stats_of(1).dropped == report.dropped
    assert mailboxes.redrive(1) == len(dead)


def test_bounded_by_bytes() -> None:
    mailboxes = boxes(capacity_bytes=1000)
    content = {"text": "x" * 300}
    report = mailboxes.deliver(one_each(1, 4, contents=[content] * 4))
    assert (report.delivered, report.rejected.tolist()) == (2, [2, 3])
    assert 600 < mailboxes.stats_of(1).waiting_bytes <= 1000
    mailboxes.poll(1, 1).deliveries()
    assert mailboxes.deliver(one_each(1, 1, contents=[content])).delivered == 1


def test_in_flight_is_bounded() -> None:
    mailboxes = boxes(in_flight_limit=3)
    mailboxes.deliver(one_each(1, 5))
    found = mailboxes.poll(1).deliveries()
    assert len(found) == 3
    assert mailboxes.poll(1).deliveries() == []
    mailboxes.nack(1, found[0], delay=100)
    assert mailboxes.poll(1).deliveries() == []
    mailboxes.ack(1, found[1])
    assert subscriptions(mailboxes.poll(1).deliveries()) == [3]


def test_expired_deliveries_can_be_dropped() -> None:
    clock = SimulatedClock()
    mailboxes = boxes(clock, deadlines={"low": 5.0}, expired="drop")
    mailboxes.deliver(batch_of((0, "a", 1, 0), (0, "b", 1, 1)))
    clock.now += 6
    assert subscriptions(mailboxes.poll(1).deliveries()) == ["b"]
    stats = mailboxes.stats_of(1)
    assert (stats.expired, stats.in_flight, stats.on_time["low"]) == (1, 1, 0.0)


def test_repetitions_are_delivered_once() -> None:
    mailboxes = boxes()
    first = batch_of((0, "a", 1, 0), (1, "b", 1, 0), (1, "c", 2, 0), keys=[10, "10"])
    assert mailboxes.deliver(first).delivered == 3
    report = mailboxes.deliver(first)
    assert (report.delivered, report.duplicates) == (0, 3)
    other = batch_of((0, "a", 1, 0), (1, "a", 1, 0), (2, "a", 1, 0), (3, "a", 1, 0), keys=["10", b"10", b"10", None])
    report = mailboxes.deliver(other)
    assert (report.delivered, report.duplicates) == (2, 2)
    assert mailboxes.deliver(other).delivered == 1  # the one without a key
    assert mailboxes.stats_of(2).duplicates == 1


def test_the_window_is_bounded() -> None:
    mailboxes = boxes(window=2)
    for key in (1, 2, 3):
        mailboxes.deliver(one_each(1, 1, keys=[key]))
    assert [mailboxes.deliver(one_each(1, 1, keys=[key])).duplicates for key in (2, 3, 1)] == [1, 1, 0]


def test_one_content_for_all_deliveries_of_an_event() -> None:
    mailboxes = boxes()
    mailboxes.deliver(
        batch_of((0, "a", 1, 0), (0, "b", 2, 0), (1, "c", 2, 0), events="xyz", contents=[{"x": 1}, None, {"y": object}])
    )
    [one], [two, none] = mailboxes.poll(1).deliveries(), mailboxes.poll(2).deliveries()
    assert one.content is two.content is not None
    assert none.content is None and none.event is None


def test_contents_of_every_type() -> None:
    content = {
        "int": 2**63 - 1,
        "float": 0.1,
        "text": "ä",
        "bool": True,
        "none": None,
        "naive": datetime.datetime(2020, 1, 2, 3, 4, 5, 6),
        "aware": datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC),
        "date": datetime.date(1969, 12, 31),
        "decimal": decimal.Decimal("1.10"),
        "nested": {"list": [1, 2.5]},
    }
    mailboxes = boxes()
    mailboxes.deliver(one_each(1, 1, contents=[content]))
    [message] = mailboxes.poll(1).deliveries()
    assert message.event == content
    numpys = {"x": np.int64(4), "t": np.datetime64("2020-01-02T03:04", "ns")}
    mailboxes.deliver(one_each(1, 1, contents=[numpys]))
    assert mailboxes.poll(1).deliveries()[0].event == {"x": 4, "t": datetime.datetime(2020, 1, 2, 3, 4)}


def test_a_content_that_cannot_be_kept_raises_and_nothing_is_delivered() -> None:
    mailboxes = boxes()
    with pytest.raises(EventError) as caught:
        mailboxes.deliver(one_each(1, 2, contents=[{}, {"x": object()}], keys=["a", "b"]))
    assert caught.value.position == 1
    assert mailboxes.stats() == []
    assert mailboxes.deliver(one_each(1, 2, keys=["a", "b"])).delivered == 2


def test_columns() -> None:
    clock = SimulatedClock()
    mailboxes = boxes(clock)
    mailboxes.deliver(batch_of((0, 5, 1, 0), (1, 6, 1, 2), contents=[b"\x80", None]))
    mailboxes.deliver(batch_of((0, 7, 1, 2), events=["e"]))
    found = mailboxes.poll(1)
    assert [message.subscription_id for message in found.deliveries()] == found.subscription_id.tolist() == [6, 7, 5]
    assert found.event_id.tolist() == [1, "e", 0]
    table = found.to_arrow()
    assert table.column("priority").to_pylist() == ["high", "high", "low"]
    assert table.column("event_id").to_pylist() == ["1", "e", "0"]
    assert table.column("content").to_pylist() == [None, None, b"\x80"]
    assert table.column("subscription_id").to_pylist() == [6, 7, 5]
    assert mailboxes.ack(1, found).accepted == 3
    assert len(mailboxes.poll(1)) == 0
    assert mailboxes.poll("nobody").to_arrow().num_rows == 0


def test_a_subscriber_never_heard_of_has_an_empty_mailbox() -> None:
    mailboxes = boxes()
    assert mailboxes.poll("nobody").deliveries() == mailboxes.poll(99).deliveries() == []
    assert mailboxes.dead_letters("nobody") == []
    assert (mailboxes.redrive("nobody"), mailboxes.purge_dead("nobody"), mailboxes.remove("nobody")) == (0, 0, 0)
    assert mailboxes.stats_of("nobody").delivered == 0
    assert mailboxes.stats() == []


def test_remove() -> None:
    clock = SimulatedClock()
    mailboxes = boxes(clock, delivery_limit=1)
    mailboxes.introduce({1: "one"})
    mailboxes.deliver(one_each(1, 4))
    dead, held = mailboxes.poll(1, 2).deliveries()
    mailboxes.nack(1, dead)
    assert mailboxes.remove("one") == 4
    assert mailboxes.poll("one").deliveries() == mailboxes.poll(1).deliveries() == []
    assert reasons(mailboxes.ack(1, held)) == ["unknown"]
    clock.now += 1000
    mailboxes.deliver(one_each(1, 1, start=9))
    assert subscriptions(mailboxes.poll(1).deliveries()) == [9]


def test_stats() -> None:
    clock = SimulatedClock()
    mailboxes = boxes(clock, deadlines=[1.0, 2.0, 3.0])
    mailboxes.deliver(batch_of((0, "a", 1, 0), (0, "b", 1, 1), (0, "c", 2, 2)))
    clock.now += 1.5
    mailboxes.poll(1).deliveries()
    one, two = mailboxes.stats()
    assert (one.subscriber, one.in_flight, one.waiting, one.oldest_wait) == (1, 2, 0, None)
    assert one.on_time == {"low": 0.0, "middle": 1.0, "high": None}
    assert (two.subscriber_code, two.waiting, two.oldest_wait) == (2, 1, 1.5)


def test_a_clock_that_goes_back_stands_still() -> None:
    clock = SimulatedClock()
    mailboxes = boxes(clock, visibility_timeout=10.0)
    mailboxes.deliver(one_each(1, 1))
    mailboxes.poll(1).deliveries()
    clock.now -= 500
    assert mailboxes.poll(1).deliveries() == []
    clock.now += 510
    assert len(mailboxes.poll(1).deliveries()) == 1


def test_timers_of_what_was_settled_do_not_pile_up() -> None:
    mailboxes = boxes()
    for start in range(0, 20_000, 1000):
        mailboxes.deliver(one_each(1, 1000, start=start))
        mailboxes.ack(1, mailboxes.poll(1, 1000).deliveries())
    assert len(mailboxes._state.boxes[1]._timers) < 6000


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("levels", []),
        ("levels", "abc"),
        ("deadlines", {"urgent": 1.0}),
        ("visibility_timeout", -1.0),
        ("overflow", "explode"),
        ("expired", "maybe"),
        ("capacity", 0),
        ("capacity_bytes", 1.5),
        ("delivery_limit", 0),
        ("in_flight_limit", None),
        ("dead_capacity", -1),
        ("window", True),
    ],
)
def test_bad_settings(setting: str, value: Any) -> None:
    with pytest.raises(SettingError, match=setting):
        MailboxSettings(**{setting: value})


@pytest.mark.parametrize(
    "call",
    [
        lambda mailboxes: mailboxes.poll(1, 0).deliveries(),
        lambda mailboxes: mailboxes.poll(1, True).deliveries(),
        lambda mailboxes: mailboxes.poll(1, wait=-1).deliveries(),
        lambda mailboxes: mailboxes.poll(1, visibility_timeout=float("inf")).deliveries(),
        lambda mailboxes: mailboxes.dead_letters(1, -1),
        lambda mailboxes: mailboxes.poll(None).deliveries(),
        lambda mailboxes: mailboxes.poll(1.0).deliveries(),
        lambda mailboxes: mailboxes.ack(1, [5]),
        lambda mailboxes: mailboxes.ack(1, "ab"),
        lambda mailboxes: mailboxes.ack(1, [("1", 2)]),
        lambda mailboxes: mailboxes.nack(1, [], delay=float("nan")),
        lambda mailboxes: mailboxes.extend(1, [], float("inf")),
    ],
)
def test_bad_arguments(call: Any) -> None:
    with pytest.raises(SettingError):
        call(boxes())


@pytest.mark.parametrize(
    "columns",
    [
        {"event_rows": np.array([0, 2])},
        {"event_rows": np.array([-1, 0])},
        {"event_rows": np.array([0.5, 1.0])},
        {"levels": np.array([0, 3])},
        {"levels": np.array([0])},
        {"subscribers": np.array([0, 2**31])},
        {"subscribers": np.array([-1, 0])},
        {"subscription_ids": ["a"]},
        {"contents": [{}]},
        {"keys": ["a"]},
        {"keys": ["a", 1.5]},
        {"key": ("a",)},
    ],
)
def test_bad_columns_raise_and_nothing_is_delivered(columns: dict[str, Any]) -> None:
    good: dict[str, Any] = {
        "event_rows": np.array([0, 1]),
        "subscription_ids": ["a", "b"],
        "subscribers": np.array([0, 1]),
        "levels": np.array([0, 2]),
        "event_ids": ["x", "y"],
    }
    mailboxes = boxes()
    with pytest.raises(SettingError):
        mailboxes.deliver(DeliveryBatch(**{**good, **columns}))
    assert mailboxes.stats() == []
    assert mailboxes.deliver(DeliveryBatch(**good)).delivered == 2


def test_an_empty_batch() -> None:
    report = boxes().deliver(batch_of(events=["x"], keys=["k"]))
    assert (report.delivered, report.duplicates, len(report.rejected)) == (0, 0, 0)


def test_a_receipt_that_was_replaced_never_holds_again() -> None:
    clock = SimulatedClock()
    mailboxes = boxes(clock, visibility_timeout=10.0)
    mailboxes.deliver(one_each(1, 1))
    [old] = mailboxes.poll(1).deliveries()
    clock.now += 10
    [new] = mailboxes.poll(1).deliveries()
    mailboxes.nack(1, new)
    assert reasons(mailboxes.ack(1, [old, new])) == ["redelivered", "redelivered"]
    assert [message.attempt for message in mailboxes.poll(1).deliveries()] == [3]
