"""The statistics of one mailbox at one instant."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MailboxCounts", "MailboxStats"]


@dataclass(frozen=True, slots=True)
class MailboxCounts:
    """What is counted of a mailbox since the start, and can be added up. Always delivered = acked + waiting + in_flight + dead + dropped +
    expired; deliveries that a restart found count as delivered."""

    delivered: int
    acked: int
    waiting: int
    """The deliveries that wait, including those delayed by a nack."""
    delayed: int
    waiting_bytes: int
    in_flight: int
    dead: int
    dropped: int
    """The deliveries dropped to make room among the waiting or the dead letters, or by a purge."""
    expired: int
    rejected: int
    """The deliveries that never entered because the mailbox was full."""
    redeliveries: int
    duplicates: int
    stale: int
    """The number of stale receipts."""


@dataclass(frozen=True, slots=True)
class MailboxStats(MailboxCounts):
    """The statistics of a mailbox at one instant."""

    subscriber: str | int
    subscriber_code: int | None
    oldest_wait: float | None
    on_time: dict[str, float | None]
    """The event delivery on-time rate of each level (`queue.on_time`). A failed attempt does not count."""
