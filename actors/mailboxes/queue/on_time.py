"""The event delivery on-time rate (EDOR) of a level, and the counts it is made of.

The paper on data prioritization names the metric and leaves its formula open. Here it is

    EDOR = delivered on time / (delivered on time + delivered late + expired + dropped + overdue)

An entry is delivered when it is taken. It is on time if that is not after its due time (its enqueue time plus its own deadline, or else
its level's; without a deadline it is always on time). Expired and dropped entries were never delivered and count against the rate, even
if they were dropped before they were due. Overdue entries still wait past their due time: without them a starved level would look well.
Waiting entries that are not yet due are not in the rate, and rejected items never entered the queue. An entry that was requeued counts
once, by its last delivery.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import lt

from actors.mailboxes.queue.entries import ENQUEUED, LostReason, TakenEntry, Waiting, due_of
from actors.mailboxes.queue.line import Line

__all__ = ["LEVEL_COUNTED", "LevelCounts", "LevelRate", "LevelStats"]

LEVEL_COUNTED = 4
"""The number of counters that are kept of a level in which nothing waits."""


@dataclass(frozen=True, slots=True)
class LevelRate:
    """The on-time rate of one level, in one mailbox or in several together, and what it is made of."""

    level: str
    on_time: int
    late: int
    expired: int
    dropped: int
    waiting: int
    overdue: int
    """The waiting entries that are past their due time."""

    @property
    def edor(self) -> float | None:
        """The on-time rate as this module defines it; None if nothing has become due."""
        became_due = self.on_time + self.late + self.expired + self.dropped + self.overdue
        return self.on_time / became_due if became_due else None


@dataclass(frozen=True, slots=True)
class LevelStats(LevelRate):
    """The statistics of one level of a queue at one instant. Always put = on_time + late + expired + dropped + waiting."""

    put: int
    rejected: int
    """The items that never entered. They are not in `put`."""
    requeued: int
    """The deliveries that were taken back. They are not in `on_time` or `late`."""
    oldest_wait: float | None
    """The seconds that the entry at the front has waited; None if the level is empty."""

    @property
    def delivered(self) -> int:
        return self.on_time + self.late


class LevelCounts:
    """The counters of one level."""

    __slots__ = ("dropped", "expired", "late", "on_time", "put", "rejected", "requeued")

    def __init__(self) -> None:
        self.put = self.on_time = self.late = self.expired = self.dropped = self.rejected = self.requeued = 0

    def state(self) -> tuple[int, ...]:
        """Returns the counts of which the on-time rate is made. Nothing may wait in the level."""
        return self.on_time, self.late, self.expired, self.dropped

    def restore(self, state: Sequence[int]) -> None:
        self.on_time, self.late, self.expired, self.dropped = state
        self.put = sum(state)

    def deliver(self, entries: Sequence[Waiting], now: float) -> None:
        late = sum(map(lt, map(due_of, entries), repeat(now)))
        self.late += late
        self.on_time += len(entries) - late

    def take_back(self, delivery: TakenEntry) -> None:
        if delivery.on_time:
            self.on_time -= 1
        else:
            self.late -= 1
        self.requeued += 1

    def lose(self, reason: LostReason) -> None:
        if reason == "expired":
            self.expired += 1
        else:
            self.dropped += 1

    def stats(self, level: str, line: Line, now: float) -> LevelStats:
        return LevelStats(
            level=level,
            put=self.put,
            on_time=self.on_time,
            late=self.late,
            expired=self.expired,
            dropped=self.dropped,
            waiting=len(line),
            overdue=line.count_overdue(now),
            rejected=self.rejected,
            requeued=self.requeued,
            oldest_wait=now - line.head[ENQUEUED] if len(line) else None,
        )
