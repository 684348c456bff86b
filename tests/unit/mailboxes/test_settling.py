"""What is in flight: acknowledged, refused, released, extended, and what is stale."""

from __future__ import annotations

import numpy as np

from actors.mailboxes.delivery import Receipt
from tests.unit.mailboxes.delivery_samples import SimulatedClock, batch_of, one_each
from tests.unit.mailboxes.mailboxes_by_hand import boxes, reasons, subscriptions


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


def test_no_delivery_limit() -> None:
    mailboxes = boxes(delivery_limit=None)
    mailboxes.deliver(one_each(1, 1))
    for attempt in range(1, 50):
        [message] = mailboxes.poll(1).deliveries()
        assert message.attempt == attempt
        mailboxes.nack(1, message)


def test_timers_of_what_was_settled_do_not_pile_up() -> None:
    mailboxes = boxes()
    for start in range(0, 20_000, 1000):
        mailboxes.deliver(one_each(1, 1000, start=start))
        mailboxes.ack(1, mailboxes.poll(1, 1000).deliveries())
    assert len(mailboxes._state.boxes[1]._timers) < 6000


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
