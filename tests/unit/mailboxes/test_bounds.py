"""What a mailbox holds is bounded: deliveries, bytes, dead letters, what is in flight, the window of ids."""

from __future__ import annotations

import pytest

from ray_pubsub.errors import OverloadedError
from tests.unit.mailboxes.delivery_samples import SimulatedClock, batch_of, one_each
from tests.unit.mailboxes.mailboxes_by_hand import boxes, subscriptions


def test_dead_letters_are_bounded() -> None:
    mailboxes = boxes(delivery_limit=1, dead_capacity=2)
    mailboxes.deliver(one_each(1, 5))
    mailboxes.nack(1, mailboxes.poll(1).deliveries())
    assert [letter.subscription_id for letter in mailboxes.dead_letters(1)] == [3, 4]
    stats = mailboxes.stats_of(1)
    assert (stats.dead, stats.dropped) == (2, 3)


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
