"""One mailbox at one instant, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MailboxStats"]


@dataclass(frozen=True, slots=True)
class MailboxStats:
    """Always: delivered = acked + waiting + in_flight + dead + dropped + expired, all since the start; what a restart found counts as
    delivered."""

    subscriber: str | int
    subscriber_code: int | None
    delivered: int
    acked: int
    waiting: int
    """Those delayed by a nack among them."""
    delayed: int
    waiting_bytes: int
    in_flight: int
    dead: int
    dropped: int
    """To make room, among the waiting or among the dead letters, or by a purge."""
    expired: int
    rejected: int
    """Never entered: the mailbox was full."""
    redeliveries: int
    duplicates: int
    stale: int
    """Receipts that no longer held."""
    oldest_wait: float | None
    on_time: dict[str, float | None]
    """The event delivery on-time rate of each level (`delivery.on_time`), an attempt that failed not counted."""
