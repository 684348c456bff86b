"""Mailboxes, one behaviour at a time: order, contents, numbers."""

from __future__ import annotations

import datetime
import decimal
import pickle

import numpy as np
import pytest

from actors.mailboxes import mailbox
from ray_pubsub.errors import EventError
from tests.unit.mailboxes.delivery_samples import SimulatedClock, batch_of, one_each
from tests.unit.mailboxes.mailboxes_by_hand import boxes, reasons, subscriptions


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


def test_large_events_come_in_several_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one poll hands out travels as a whole, and is bounded; a single event is handed out however large it is."""
    monkeypatch.setattr(mailbox, "MOST_POLLED_BYTES", 2500)
    mailboxes = boxes()
    contents = [{"x": "x" * size} for size in (1000, 1000, 1000, 9000, 10, 10)]
    mailboxes.deliver(batch_of(*((place, f"s{place}", 1, 0) for place in range(6)), events="abcdef", contents=contents))
    polls = [mailboxes.poll(1).deliveries() for _ in range(5)]
    assert [subscriptions(found) for found in polls] == [["s0", "s1"], ["s2"], ["s3"], ["s4", "s5"], []]
    assert {delivery.attempt for found in polls for delivery in found} == {1}
    mailboxes.nack(1, [delivery for found in polls for delivery in found])
    while found := mailboxes.poll(1).deliveries():
        mailboxes.nack(1, found)
    assert [len(mailboxes.dead_letters(1, limit)) for limit in (None, 10)] == [6, 2]


def test_by_the_policy_given() -> None:
    mailboxes = boxes(weights=[1, 1, 2])
    mailboxes.deliver(
        batch_of(*((0, f"low {at}", 1, 0) for at in range(2)), *((0, f"high {at}", 1, 2) for at in range(4)))
    )
    assert subscriptions(mailboxes.poll(1).deliveries()) == ["high 0", "high 1", "low 0", "high 2", "high 3", "low 1"]


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
