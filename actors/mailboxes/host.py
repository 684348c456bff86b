"""Hosts the mailboxes of a server in an actor's process, either the only coordinator's or a separate one for several coordinators.
Consumers call it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from actors.mailboxes.arrivals import Arrived
from actors.mailboxes.delivery import DeliveryColumns
from actors.mailboxes.delivery_batch import DeliverReport, DeliveryBatch
from actors.mailboxes.mailboxes import Mailboxes
from actors.mailboxes.settings import MailboxSettings
from actors.mailboxes.stats import MailboxStats
from actors.mailboxes.store.store import MailboxStore
from actors.server_settings import ServerSettings
from actors.storage.data_folder import STORES, DataFolder
from actors.storage.opening import Opening
from actors.storage.postgres.address import PostgresAddress

__all__ = ["FORWARDED", "MOST_POLLS", "MailboxHost"]

logger = logging.getLogger(__name__)

MOST_POLLS = 48
"""The most polls that may wait. Each holds a thread; a further poll is answered at once, and the client asks again."""

FORWARDED = {
    "ack": "ack",
    "nack": "nack",
    "release": "release",
    "extend": "extend",
    "dead_letters": "dead_letters",
    "redrive": "redrive",
    "purge_dead": "purge_dead",
    "remove_mailbox": "remove",
    "first_offset": "offsets.first",
    "begin_offsets": "offsets.begin",
    "end_offsets": "offsets.end",
    "offset_bounds": "offsets.bounds",
    "read_range": "offsets.read",
    "ack_through": "offsets.ack_through",
    "last_batch": "marks.last",
    "mark_batch": "marks.set",
    "mailbox_summary": "summary",
    "backup_mailboxes": "backup",
}
"""The methods of this actor that forward to its mailboxes: the name here, and there. They take the same arguments."""


class MailboxHost:
    """Hosts mailboxes. The store is opened in the background, with retries until it succeeds. Until then every call raises the error
    that prevents it: the disk is full, the folder is missing."""

    def __init__(
        self,
        settings: ServerSettings,
        place: str | PostgresAddress | None,
        owner: str = "",
        in_doubt: Callable[[], None] | None = None,
    ) -> None:
        """`place` is the data folder or the database, if anything is stored. `owner` names the server in the lock of its data.
        `in_doubt`: see `PostgresDatabase`."""
        own = settings.mailbox_settings()
        self._opening = Opening(lambda: _open(own, place, owner, in_doubt), "the mailboxes")
        self._waiting = threading.Semaphore(MOST_POLLS)

    @property
    def mailboxes(self) -> Mailboxes:
        return self._opening.get()[0]

    def deliver(self, batch: DeliveryBatch, names: Mapping[int, str]) -> DeliverReport:
        """Delivers a batch. `names` has the names of its subscribers, by the registry's codes. They come with every batch, because these
        mailboxes may have lost names that were not on disk, and a registry that has lost everything assigns the same codes again."""
        mailboxes = self.mailboxes
        own = mailboxes.adopt(names)
        if any(given != code for given, code in own.items()):
            codes = np.zeros(max(own) + 1, np.int32)
            codes[list(own)] = list(own.values())
            batch = replace(batch, subscribers=codes[batch.subscribers])
        return mailboxes.deliver(batch)

    def poll(
        self, subscriber: str, limit: int = 100, wait: float = 0.0, visibility_timeout: float | None = None
    ) -> DeliveryColumns:
        """Calls Mailboxes.poll. Does not wait if too many polls wait already."""
        with self._allowed(wait) as own:
            return self.mailboxes.poll(subscriber, limit, own, visibility_timeout=visibility_timeout)

    def arrivals(self, after: tuple[str, int] | None = None, wait: float = 0.0) -> Arrived:
        """Calls Mailboxes.arrivals. Does not wait if too many polls wait already."""
        with self._allowed(wait) as own:
            return self.mailboxes.arrivals(after, own)

    @contextmanager
    def _allowed(self, wait: float) -> Iterator[float]:
        """Provides the seconds for which a call may wait: none if too many wait already."""
        waits = wait > 0 and self._waiting.acquire(blocking=False)
        try:
            yield wait if waits else 0.0
        finally:
            if waits:
                self._waiting.release()

    def mailbox_stats(self, subscriber: str | None = None) -> list[MailboxStats]:
        """Returns the statistics of one mailbox, or of all."""
        return self.mailboxes.stats() if subscriber is None else [self.mailboxes.stats_of(subscriber)]

    def mailbox_health(self) -> dict[str, Any]:
        """Returns the process id and epoch. Raises the error that keeps the store from opening."""
        return {"pid": os.getpid(), "epoch": self.mailboxes.epoch}

    def close_mailboxes(self) -> None:
        """Writes what is not yet on disk. A fenced instance has nothing to write."""
        opened = self._opening.close()
        if opened is None:
            return
        mailboxes, folder = opened
        try:
            mailboxes.close()
        finally:
            if folder is not None:
                folder.close()


def _forwarded(method: str) -> Callable[..., Any]:
    find = attrgetter(method)

    def call(self: MailboxHost, *arguments: Any, **named: Any) -> Any:
        return find(self.mailboxes)(*arguments, **named)

    call.__doc__ = f"Mailboxes.{method}"
    return call


for _name, _method in FORWARDED.items():
    setattr(MailboxHost, _name, _forwarded(_method))


def _open(
    settings: MailboxSettings, place: str | PostgresAddress | None, owner: str, in_doubt: Callable[[], None] | None
) -> tuple[Mailboxes, DataFolder | None]:
    """Opens the store and the mailboxes. Raises StoreError. The registry opens the data folder first, so a folder without a manifest is
    not this server's."""
    with ExitStack() as undo:
        folder, store = None, MailboxStore(None)
        if isinstance(place, str):
            folder = undo.enter_context(DataFolder(Path(place), owner, new=False))
            store = MailboxStore(Path(place) / STORES["mailboxes"], create=folder.may_create("mailboxes"))
            undo.callback(store.close)
            folder.record("mailboxes", store.identity)
        elif place is not None:
            from actors.mailboxes.store.postgres_schema import MAILBOX_TABLES
            from actors.storage.postgres.database import PostgresDatabase

            store = MailboxStore(PostgresDatabase(place, MAILBOX_TABLES, owner, in_doubt=in_doubt))
            undo.callback(store.close)
        mailboxes = Mailboxes(store, settings)
        undo.pop_all()
    logger.info("mailboxes opened epoch=%d data_dir=%s pid=%d", mailboxes.epoch, place, os.getpid())
    return mailboxes, folder
