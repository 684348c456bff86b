"""The settings of mailboxes, the same for all mailboxes of a process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal, get_args

from actors.mailboxes.queue.levels import PerLevel, level_names, per_level
from actors.mailboxes.queue.policy import Policy, Strict, Weighted
from ray_pubsub.errors import SettingError
from ray_pubsub.model.arguments import check_choice, check_seconds, check_whole

__all__ = ["MailboxOverflow", "MailboxSettings"]

MailboxOverflow = Literal["reject", "drop-oldest", "drop-lowest", "dead-letter"]
"""What happens to deliveries that do not fit. reject: they are reported to the publisher. drop-oldest, drop-lowest: waiting deliveries
are dropped (`queue.overflow`). dead-letter: they become dead letters."""


@dataclass(frozen=True, slots=True)
class MailboxSettings:
    """The settings of all mailboxes of a server."""

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
        per_level("deadlines", self.deadlines, level_names(self.levels), inf, check_seconds)
        check_seconds("visibility_timeout", self.visibility_timeout)
        if self.weights is not None and self.longest_wait is not None:
            raise SettingError("weights", "cannot be combined with longest_wait")
        self.policy.scheduler(level_names(self.levels))
        check_choice("overflow", self.overflow, get_args(MailboxOverflow))
        check_choice("expired", self.expired, ("deliver-late", "drop"))
        for name in ("capacity", "capacity_bytes", "delivery_limit"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), 1)
        for name, least in (("in_flight_limit", 1), ("dead_capacity", 0), ("window", 0), ("window_bytes", 1)):
            check_whole(name, getattr(self, name), least)

    @property
    def policy(self) -> Policy:
        return Strict(self.longest_wait) if self.weights is None else Weighted(self.weights)
