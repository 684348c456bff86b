"""Deliveries that are settled together: sorted by their subscribers, each remembered by its position."""

from __future__ import annotations

from typing import Any

import pytest

from actors.consuming import _by_subscriber
from actors.delivery_message import DeliveryMessage, Receipt
from ray_pubsub.errors import SettingError


def message(subscriber: str, sequence: int) -> DeliveryMessage:
    return DeliveryMessage(subscriber, 1, sequence, "s", "e", None, 0, "low", 0.0, 0.0, 1, 7, 0.0)


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
