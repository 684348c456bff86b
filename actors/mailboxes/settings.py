"""The settings of mailboxes, the same for all mailboxes of a process."""

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
"""What happens to deliveries that do not fit. reject: they are reported to the publisher. drop-oldest, drop-lowest: waiting deliveries
are dropped (`queue.overflow`). dead-letter: they become dead letters."""


@dataclass(frozen=True, slots=True)
class MailboxSettings:
    levels: Sequence[str] = ("normal",)
    """The names of the levels, lowest first."""
    deadlines: PerLevel[float] | None = None
    """Seconds from publication, by level; without this setting there are no deadlines."""
    longest_wait: float | None = None
    """The seconds after which a delivery goes before all that have not waited that long, whatever their levels (`queue.policy.Strict`)."""
    weights: PerLevel[int] | None = None
    """The number of deliveries of each level that leave in a round (`queue.policy.Weighted`). Without weights and `longest_wait`, higher
    levels always go first."""
    expired: Literal["deliver-late", "drop"] = "deliver-late"
    capacity: int | None = 100_000
    """The most deliveries that wait in one mailbox. Deliveries in flight are bounded separately, and may come back to a full mailbox."""
    capacity_bytes: int | None = 256 * 2**20
    """The most bytes that wait in one mailbox. An event's content counts for every delivery of it."""
    overflow: MailboxOverflow = "reject"
    in_flight_limit: int = 20_000
    """The most deliveries of one mailbox that are polled and not settled, or delayed. Beyond it, poll returns nothing."""
    visibility_timeout: float = 30.0
    """The seconds after which deliveries that were polled and not settled are handed out again."""
    delivery_limit: int | None = 16
    """The number of attempts. A delivery that fails the last one becomes a dead letter. None means no limit."""
    dead_capacity: int = 10_000
    """The most dead letters in one mailbox. Beyond it, the oldest is dropped."""
    window: int = 200_000
    """The number of events, of all mailboxes together, whose ids are remembered to recognise repetitions, and likewise the number of
    publications whose idempotency keys are."""
    window_bytes: int = 64 * 2**20
    """The most bytes that each of these two may take. Beyond it, the oldest are forgotten, even if they are fewer than `window`."""

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
