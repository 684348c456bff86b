"""Deliveries that are settled together: sorted by their subscribers, each remembered by its position."""

from __future__ import annotations

from typing import Any

import pytest

from actors.client.consuming import _by_subscriber
from actors.mailboxes.delivery import DeadLetter, Delivery, Receipt
from actors.mailboxes.event_content import pack_event
from actors.registry.columns import StoredSubscription
from ray_pubsub.errors import SettingError
from ray_pubsub.sharding.pivots import Route


def message(subscriber: str, sequence: int) -> Delivery:
    return Delivery(subscriber, 1, sequence, "s", "e", None, 0, "low", 0.0, 0.0, 1, 7, 0.0)


def test_by_subscriber() -> None:
    given = [message("a", 1), message("b", 2), message("a", 3)]
    expected = [("a", [0, 2], [Receipt(1, 7), Receipt(3, 7)]), ("b", [1], [Receipt(2, 7)])]
    assert list(_by_subscriber(given)) == expected
    assert list(_by_subscriber(iter(given))) == expected
    assert list(_by_subscriber(given[0])) == [("a", [0], [Receipt(1, 7)])]
    assert list(_by_subscriber([])) == []


@pytest.mark.parametrize("given", [5, None, "a", b"a", [5], [message("a", 1), None]])
def test_what_is_refused(given: Any) -> None:
    with pytest.raises(SettingError):
        list(_by_subscriber(given))


def test_what_a_person_reads_of_it() -> None:
    content = pack_event({"x": 1, "long": "y" * 5000}, 0)
    delivery = Delivery("desk-7", 1, 5, "s1", "e1", content, 3, "critical", 1.0, 2.0, 1, 7, 3.0)
    assert repr(delivery).startswith(
        "Delivery(subscriber='desk-7', subscription_id='s1', event_id='e1', priority='critical', attempt=1, "
        "event={'x': 1, 'long': 'yyy"
    )
    letter = DeadLetter("desk-7", 1, 5, "s1", "e1", None, 3, "critical", 1.0, 16, "refused", 9.0)
    assert repr(letter) == (
        "DeadLetter(subscriber='desk-7', sequence=5, subscription_id='s1', event_id='e1', priority='critical', attempts=16, "
        "reason='refused', event=None)"
    )
    stored = StoredSubscription(9, "s1", "desk-7", "text", "x = " + "1" * 5000, 0, Route(("x",)), 3)
    assert repr(stored).startswith("StoredSubscription(id='s1', subscriber='desk-7', expression='x = 111")
    assert all(len(repr(each)) < 1000 for each in (delivery, letter, stored))
