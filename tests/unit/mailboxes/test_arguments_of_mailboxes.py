"""Arguments and settings that a mailbox refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actors.mailboxes.delivery_batch import DeliveryBatch
from actors.mailboxes.settings import MailboxSettings
from ray_pubsub.errors import SettingError
from tests.unit.mailboxes.delivery_samples import batch_of
from tests.unit.mailboxes.mailboxes_by_hand import boxes


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
