"""A mailbox whose deliveries are read by sequence number and acknowledged up to one; the consumer keeps the offset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

from actors.mailboxes.mailbox import Flight, Mailbox, MailboxRun
from actors.mailboxes.queue.on_time import LevelStats
from actors.mailboxes.queue.overflow import refused_groups
from actors.mailboxes.settings import MailboxSettings
from actors.mailboxes.stats import MailboxStats

__all__ = ["OffsetMailbox"]


class OffsetMailbox(Mailbox):
    """Counts the waiting deliveries and their bytes; the delivery log has the deliveries. None is handed out, so none fails."""

    def __init__(
        self, settings: MailboxSettings, clock: Callable[[], float], counted: Sequence[int] | None = None
    ) -> None:
        super().__init__(settings, clock, counted)
        self._count = self._bytes = 0
        self._most = settings.capacity or inf
        self._most_bytes = settings.capacity_bytes or inf

    def has_room(self, count: int, size: int) -> bool:
        return self._count + count <= self._most and self._bytes + size <= self._most_bytes

    def refused(self, counts: Sequence[int], sizes: Sequence[int]) -> Sequence[int]:
        return refused_groups(counts, sizes, self._count, self._most, self._bytes, self._most_bytes)

    def enter(self, runs: Sequence[MailboxRun], enqueued: float | None, admitted: bool = False) -> list[int]:
        for _, sequence, sizes in runs:
            self._delivered += len(sequence)
            self.hold(len(sequence), sizes * len(sequence) if isinstance(sizes, int) else sum(sizes))
        return []

    def hold(self, count: int, size: int) -> None:
        """Adds `count` waiting deliveries with this total size."""
        self._count += count
        self._bytes += size

    def let_go(self, count: int, size: int) -> None:
        """Acknowledges `count` deliveries with this total size."""
        self._count -= count
        self._bytes -= size
        self._acked += count

    def hand_out(self, limit: int, lease: int, until: float) -> tuple[list[Flight], list[int]]:
        return [], []

    def __len__(self) -> int:
        return self._count

    def stats(self, subscriber: str | int, code: int | None) -> tuple[MailboxStats, list[LevelStats]]:
        stats, levels = super().stats(subscriber, code)
        return replace(stats, waiting=self._count, waiting_bytes=self._bytes), levels
