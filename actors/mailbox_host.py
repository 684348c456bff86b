"""Mailboxes in a process of a server: the coordinator's own, or one for all coordinators. What consumers call."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from actors.delivery_batch import DeliverReport, DeliveryBatch
from actors.delivery_message import AckReport, DeadLetter, DeliveryColumns
from actors.mailbox_stats import MailboxStats
from actors.mailbox_store import MailboxStore
from actors.mailbox_summary import MailboxSummary
from actors.mailboxes import Mailboxes
from actors.offset_reading import Place
from actors.server_settings import ServerSettings

__all__ = ["MOST_WAITING", "MailboxHost"]

logger = logging.getLogger(__name__)

FILE = "mailboxes.sqlite"
MOST_WAITING = 48
"""Polls that wait here. Each holds a thread; who comes beyond that is answered at once and asks again."""


class MailboxHost:
    """Thin: everything is in `mailboxes.py`."""

    def __init__(self, settings: ServerSettings, data_dir: str | None) -> None:
        path = None if data_dir is None else Path(data_dir) / FILE
        self.mailboxes = Mailboxes(MailboxStore(path), settings.mailbox_settings())
        self._places = threading.Semaphore(MOST_WAITING)
        logger.info("mailboxes opened epoch=%d path=%s pid=%d", self.mailboxes.epoch, path, os.getpid())

    def deliver(self, batch: DeliveryBatch, names: Mapping[int, str]) -> DeliverReport:
        """`names`: of the batch's subscribers. Told with every batch, so that these mailboxes, which may have lost some that were not on
        disk, never deliver to a number without a name; and that a registry that lost everything may number subscribers anew."""
        own = self.mailboxes.adopt(names)
        if any(given != code for given, code in own.items()):
            codes = np.zeros(max(own) + 1, np.int32)
            codes[list(own)] = list(own.values())
            batch = replace(batch, subscribers=codes[batch.subscribers])
        return self.mailboxes.deliver(batch)

    def poll(
        self, subscriber: str, limit: int = 100, wait: float = 0.0, visibility_timeout: float | None = None
    ) -> DeliveryColumns:
        """As Mailboxes.poll, in columns. May be answered before `wait` is over, with nothing, if very many wait."""
        place = wait > 0 and self._places.acquire(blocking=False)
        try:
            return self.mailboxes.poll(
                subscriber, limit, wait if place else 0.0, visibility_timeout=visibility_timeout, columns=True
            )
        finally:
            if place:
                self._places.release()

    def ack(self, subscriber: str, receipts: Any) -> AckReport:
        return self.mailboxes.ack(subscriber, receipts)

    def nack(self, subscriber: str, receipts: Any, delay: float = 0.0, reason: str = "refused") -> AckReport:
        return self.mailboxes.nack(subscriber, receipts, delay, reason)

    def release(self, subscriber: str, receipts: Any) -> AckReport:
        return self.mailboxes.release(subscriber, receipts)

    def extend(self, subscriber: str, receipts: Any, seconds: float) -> AckReport:
        return self.mailboxes.extend(subscriber, receipts, seconds)

    def dead_letters(self, subscriber: str, limit: int | None = None) -> list[DeadLetter]:
        return self.mailboxes.dead_letters(subscriber, limit)

    def redrive(self, subscriber: str, sequences: Iterable[int] | None = None) -> int:
        return self.mailboxes.redrive(subscriber, sequences)

    def purge_dead(self, subscriber: str, sequences: Iterable[int] | None = None) -> int:
        return self.mailboxes.purge_dead(subscriber, sequences)

    def remove_mailbox(self, subscriber: str) -> int:
        return self.mailboxes.remove(subscriber)

    def first_offset(self) -> Place:
        return self.mailboxes.offsets.first()

    def begin_offsets(self, subscriber: str) -> Place:
        return self.mailboxes.offsets.begin(subscriber)

    def end_offsets(self, subscriber: str) -> int:
        return self.mailboxes.offsets.end(subscriber)

    def offset_bounds(self, subscriber: str, after: Place, up_to: int | None, rows: int) -> list[int]:
        return self.mailboxes.offsets.bounds(subscriber, after, up_to, rows)

    def read_range(self, subscriber: str, after: Place, up_to: int) -> DeliveryColumns:
        return self.mailboxes.offsets.read(subscriber, after, up_to)

    def ack_through(self, subscriber: str, place: Place) -> int:
        return self.mailboxes.offsets.ack_through(subscriber, place)

    def last_batch(self, stream: str) -> int | None:
        return self.mailboxes.marks.last(stream)

    def mark_batch(self, stream: str, batch: int) -> None:
        self.mailboxes.marks.set(stream, batch)

    def mailbox_stats(self, subscriber: str | None = None) -> list[MailboxStats]:
        """Of one mailbox, or of all."""
        return self.mailboxes.stats() if subscriber is None else [self.mailboxes.stats_of(subscriber)]

    def mailbox_summary(self, most: int = 10) -> MailboxSummary:
        """Of all together, and of the fullest ones."""
        return self.mailboxes.summary(most)

    def mailbox_health(self) -> dict[str, Any]:
        return {"pid": os.getpid(), "epoch": self.mailboxes.epoch}

    def close_mailboxes(self) -> None:
        self.mailboxes.flush()
        self.mailboxes.close()
