"""Reads deliveries by sequence number: for a Spark stream, which keeps its own offset and reads a range again after a failure."""

from __future__ import annotations

import threading
from math import inf
from typing import NamedTuple

import numpy as np

from actors.mailboxes.delivery import DeliveryColumns
from actors.mailboxes.offsets.offset_rows import OffsetRows
from actors.mailboxes.settings import MailboxSettings
from actors.mailboxes.state import MailboxState
from actors.mailboxes.store.store import MailboxStore
from ray_pubsub.errors import SettingError, StoreError

__all__ = ["OffsetReading", "Place"]


class Place(NamedTuple):
    """A place among the deliveries of these mailboxes: everything up to a sequence number."""

    store: str
    """Identifies the mailboxes, because mailboxes without a store count from 1 again after a restart."""
    sequence: int


class OffsetReading:
    """Offset reading of mailboxes. A planned range reads the same until it is acknowledged: nothing of such a mailbox is handed out by
    poll, expires or is dropped to make room. Every method may be called from any thread."""

    def __init__(
        self, store: MailboxStore, settings: MailboxSettings, state: MailboxState, lock: threading.Lock
    ) -> None:
        self._store, self._settings, self._lock = store, settings, lock
        self._rows = OffsetRows(store, settings, state)

    def first(self) -> Place:
        """Returns the place before everything."""
        return Place(self._store.identity, 0)

    def begin(self, subscriber: str) -> Place:
        """Switches a mailbox to offset reading; poll then refuses it. Returns the place before everything that waits."""
        if self._settings.overflow != "reject" or self._settings.expired != "deliver-late":
            raise SettingError(
                "mailbox",
                'a mailbox is read by offset only where overflow="reject" and expired="deliver-late": else deliveries that were counted '
                "on would disappear",
            )
        with self._lock:
            self._store.check()
            begun = self._rows.begin(subscriber)
            live = self._rows.live(subscriber, 0, inf)
            first = min((int(chunk.sequence[rows[0]]) for chunk, rows in live), default=None)
            sequence = self._rows.newest if first is None else first - 1
        if begun:
            self._store.commit()
        return Place(self._store.identity, sequence)

    def end(self, subscriber: str) -> int:
        """Switches a mailbox back to polling. Returns the number of deliveries that wait in it."""
        with self._lock:
            self._store.check()
            waiting = self._rows.end(subscriber)
        self._store.commit()
        return waiting

    def bounds(self, subscriber: str, after: Place, up_to: int | None, rows: int) -> list[int]:
        """Splits everything after a place into ranges of `rows` deliveries, the last one up to `up_to` or the newest. Returns the ends
        of the ranges, an empty list if there is nothing."""
        self._check(after)
        with self._lock:
            last = self._rows.newest if up_to is None else up_to
            numbers = [chunk.sequence[found] for chunk, found in self._rows.live(subscriber, after.sequence, last)]
        sequence = np.concatenate(numbers) if numbers else np.empty(0, np.int64)
        if not len(sequence):
            return []
        return [*sequence[rows - 1 : len(sequence) - 1 : rows].tolist(), last]

    def read(self, subscriber: str, after: Place, up_to: int) -> DeliveryColumns:
        """Returns everything after a place up to a sequence number, in that order."""
        self._check(after)
        with self._lock:
            return self._rows.columns(subscriber, after.sequence, up_to)

    def ack_through(self, subscriber: str, place: Place) -> int:
        """Acknowledges everything up to a place; on return that is on disk, if there is a store. Returns the number of deliveries, 0 for
        a repetition."""
        self._check(place)
        with self._lock:
            self._store.check()
            settled, ticket = self._rows.settle(subscriber, place.sequence)
        self._store.commit(ticket)
        return settled

    def refuse(self, subscriber: str | int) -> None:
        """Raises SettingError if this mailbox is read by offset and therefore cannot be polled."""
        if self._rows.is_read_so(subscriber):
            raise SettingError(
                "subscriber",
                f"the deliveries of {subscriber!r} are read by offset, by a stream of Spark; end that, and say so with "
                f"server.end_stream({subscriber!r}), or poll another subscriber",
            )

    def _check(self, place: Place) -> None:
        self._store.check()
        if place.store != self._store.identity:
            raise StoreError(
                self._store.name,
                "these are not the mailboxes that the place was read from: those kept nothing on disk and are gone. Start with a "
                "new checkpoint; a server with a data_dir keeps its deliveries",
            )
