"""Mailboxes on a simulated clock, and what they hand out."""

from __future__ import annotations

from typing import Any

from actors.mailboxes.mailboxes import Mailboxes
from actors.mailboxes.settings import MailboxSettings
from tests.unit.mailboxes.delivery_samples import SimulatedClock

LEVELS = ["low", "middle", "high"]


def boxes(clock: SimulatedClock | None = None, **settings: Any) -> Mailboxes:
    return Mailboxes(settings=MailboxSettings(levels=LEVELS, **settings), clock=clock or SimulatedClock())


def subscriptions(found: Any) -> list[Any]:
    return [message.subscription_id for message in found]


def reasons(report: Any) -> list[str]:
    return [stale.reason for stale in report.stale]
