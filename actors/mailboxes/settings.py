"""How mailboxes behave; the same for all mailboxes of a process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, get_args

from actors.mailboxes.queue.levels import PerLevel, level_names, per_level, seconds
from actors.mailboxes.queue.policy import Policy, Strict, Weighted
from ray_pubsub.errors import SettingError

__all__ = ["MailboxOverflow", "MailboxSettings"]

MailboxOverflow = Literal["reject", "drop-oldest", "drop-lowest", "dead-letter"]
"""reject: what does not fit is reported to the publisher. drop-oldest, drop-lowest: what waits is dropped (`queue.overflow`).
dead-letter: what does not fit becomes a dead letter."""


@dataclass(frozen=True, slots=True)
class MailboxSettings:
    levels: Sequence[str] = ("normal",)
    """Lowest first."""
    deadlines: PerLevel[float] | None = None
    """Seconds from publication, by level; none if not given."""
    longest_wait: float | None = None
    """Seconds after which a delivery goes before all that have not waited that long, whatever their levels (`queue.policy.Strict`)."""
    weights: PerLevel[int] | None = None
    """How many deliveries of each level leave in a round (`queue.policy.Weighted`). Without either, higher levels always go first."""
    expired: Literal["deliver-late", "drop"] = "deliver-late"
    capacity: int | None = 100_000
    """Deliveries that wait in one mailbox. What is in flight is bounded apart, and may come back to a full mailbox."""
    capacity_bytes: int | None = 256 * 2**20
    """Bytes that wait in one mailbox, an event's content counted for every delivery of it."""
    overflow: MailboxOverflow = "reject"
    in_flight_limit: int = 20_000
    """Deliveries of one mailbox that were polled and not settled, or are delayed; beyond, poll gives nothing."""
    visibility_timeout: float = 30.0
    """Seconds after which what was polled and not settled is handed out again."""
    delivery_limit: int | None = 16
    """Attempts; what fails the last becomes a dead letter. None for no limit."""
    dead_capacity: int = 10_000
    """Dead letters kept in one mailbox; beyond, the oldest is dropped."""
    window: int = 200_000
    """Events that are remembered by their ids, of all mailboxes together, and publications by their idempotency keys, as many of each: a
    repetition of these is recognised."""
    window_bytes: int = 64 * 2**20
    """Bytes that each of these two may take; beyond, the oldest are forgotten, even if they are fewer than `window`."""

    def __post_init__(self) -> None:
        per_level("deadlines", self.deadlines, level_names(self.levels), inf, seconds)
        seconds("visibility_timeout", self.visibility_timeout)
        if self.weights is not None and self.longest_wait is not None:
            raise SettingError("weights", "cannot be combined with longest_wait")
        self.policy.scheduler(level_names(self.levels))
        if self.overflow not in get_args(MailboxOverflow):
            raise SettingError(
                "overflow", f"must be one of {', '.join(get_args(MailboxOverflow))}, not {self.overflow!r}"
            )
        if self.expired not in ("deliver-late", "drop"):
            raise SettingError("expired", f"must be 'deliver-late' or 'drop', not {self.expired!r}")
        for name in ("capacity", "capacity_bytes", "delivery_limit"):
            _at_least(name, getattr(self, name), 1, or_none=True)
        _at_least("in_flight_limit", self.in_flight_limit, 1)
        _at_least("dead_capacity", self.dead_capacity, 0)
        _at_least("window", self.window, 0)
        _at_least("window_bytes", self.window_bytes, 1)

    @property
    def policy(self) -> Policy:
        return Strict(self.longest_wait) if self.weights is None else Weighted(self.weights)


def _at_least(name: str, value: Any, least: int, or_none: bool = False) -> None:
    if or_none and value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SettingError(name, f"must be a whole number of at least {least}, not {value!r}")
