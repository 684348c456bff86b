"""The statistics of all mailboxes of a server together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from heapq import nlargest
from typing import Any

from actors.mailboxes.queue.on_time import LevelRate, LevelStats
from actors.mailboxes.stats import MailboxCounts, MailboxStats

__all__ = ["MailboxSummary", "summarise"]


@dataclass(frozen=True, slots=True)
class MailboxSummary(MailboxCounts):
    """The sums of MailboxStats over all mailboxes."""

    mailboxes: int
    oldest_wait: float | None
    """The seconds for which the oldest delivery that nobody has polled has been waiting."""
    levels: tuple[LevelRate, ...]
    fullest: tuple[MailboxStats, ...]
    """The mailboxes with the most waiting deliveries."""

    @property
    def on_time(self) -> dict[str, float | None]:
        """The event delivery on-time rate (EDOR) of each level."""
        return {level.level: level.edor for level in self.levels}

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "on_time": self.on_time}


def summarise(
    each: Iterable[tuple[MailboxStats, list[LevelStats]]], count: int, levels: Iterable[str], most: int
) -> MailboxSummary:
    """Sums statistics. `count` is the number of mailboxes; `each` may have the sums of several as one. `most` is the number of the
    fullest mailboxes that are listed."""
    sums = {field.name: 0 for field in fields(MailboxCounts)}
    by_level = {level: [0] * 6 for level in levels}
    boxes: list[MailboxStats] = []
    oldest: float | None = None
    for stats, own in each:
        for name in sums:
            sums[name] += getattr(stats, name)
        for level in own:
            found = (level.on_time, level.late, level.expired, level.dropped, level.waiting, level.overdue)
            by_level[level.level] = [so_far + more for so_far, more in zip(by_level[level.level], found, strict=True)]
        if stats.oldest_wait is not None:
            oldest = max(stats.oldest_wait, oldest or 0.0)
        boxes.append(stats)
        if len(boxes) > 4 * most + 64:
            boxes = _fullest(boxes, most)
    return MailboxSummary(
        **sums,
        mailboxes=count,
        oldest_wait=oldest,
        levels=tuple(LevelRate(level, *numbers) for level, numbers in by_level.items()),
        fullest=tuple(stats for stats in _fullest(boxes, most) if stats.waiting + stats.in_flight + stats.dead),
    )


def _fullest(boxes: list[MailboxStats], most: int) -> list[MailboxStats]:
    return nlargest(most, boxes, key=lambda stats: (stats.waiting + stats.in_flight, stats.dead))
