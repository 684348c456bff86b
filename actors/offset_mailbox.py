"""A mailbox whose deliveries are read by sequence number and acknowledged up to one, by a consumer that keeps its own place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

from actors.mailbox import Flight, Mailbox, MailboxRun
from actors.mailbox_settings import MailboxSettings
from actors.mailbox_stats import MailboxStats
from ray_pubsub.delivery.on_time import LevelStats

__all__ = ["OffsetMailbox"]


class OffsetMailbox(Mailbox):
    """Knows how many deliveries wait and how large they are; which, the log knows. None is ever handed out, so none fails or dies."""

    def __init__(self, settings: MailboxSettings, clock: Callable[[], float], before: Mailbox | None = None) -> None:
        """`before`: the mailbox that this one was; its dead letters stay."""
        super().__init__(settings, clock)
        self._count = self._bytes = 0
        self._most = settings.capacity or inf
        self._most_bytes = settings.capacity_bytes or inf
        if before is not None:
            self.take_over(before)

    def has_room(self, count: int, size: int) -> bool:
        return self._count + count <= self._most and self._bytes + size <= self._most_bytes

    def refused(self, sizes: Sequence[int] | int, count: int) -> Sequence[int]:
        waiting, used = self._count, self._bytes
        rejected: list[int] = []
        for position in range(count):
            size = sizes if isinstance(sizes, int) else sizes[position]
            if waiting < self._most and used + size <= self._most_bytes:
                waiting, used = waiting + 1, used + size
            else:
                rejected.append(position)
        return rejected

    def enter(self, runs: Sequence[MailboxRun], enqueued: float | None, admitted: bool = False) -> list[int]:
        for _, sequence, sizes in runs:
            self._delivered += len(sequence)
            self.hold(len(sequence), sizes * len(sequence) if isinstance(sizes, int) else sum(sizes))
        return []

    def hold(self, count: int, size: int) -> None:
        """So many wait that were here before."""
        self._count += count
        self._bytes += size

    def let_go(self, count: int, size: int) -> None:
        """So many are acknowledged."""
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
