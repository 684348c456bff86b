"""Puts a batch into the mailboxes: what is new and fits is written to disk, and then enters."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.mailboxes.deduplication import chunk_of, entries_of, known_of, undelivered_of
from actors.mailboxes.delivery_batch import DeliverReport, DeliveryBatch
from actors.mailboxes.publish_window import PublishWindow
from actors.mailboxes.settings import MailboxSettings
from actors.mailboxes.state import MailboxState
from actors.mailboxes.store.delivery_chunk import Chunk, merged
from actors.mailboxes.store.store import DeadRow, MailboxStore, Stored
from actors.mailboxes.waiters import Waiters
from ray_pubsub.failpoints import reach

__all__ = ["MailboxIntake"]

PORTION = 256
"""The number of mailboxes that are filled before the lock is released once, because a batch for very many must not keep polls waiting."""


class MailboxIntake:
    """Takes one batch at a time. So a batch that is recognised as a repetition is on disk already, and the room that was found is still
    there.

    `held` is taken before the lock of the state. It is the only lock held while waiting for the disk, so polls never wait for the disk.
    """

    def __init__(
        self,
        store: MailboxStore,
        settings: MailboxSettings,
        state: MailboxState,
        waiters: Waiters,
        lock: threading.Lock,
        stored: Stored,
    ) -> None:
        self.held = threading.Lock()
        self._store = store
        self._settings = settings
        self._state = state
        self._waiters = waiters
        self._lock = lock
        self._next_sequence = stored.next_sequence
        self.window = PublishWindow(settings.window, settings.window_bytes)
        self.window.record(stored.window)

    def deliver(self, batch: DeliveryBatch) -> DeliverReport:
        batch = batch.checked(len(self._settings.levels))
        with self.held:
            self._store.check()
            known = known_of(batch, self.window)
            positions = undelivered_of(batch, known)
            with self._lock:
                now = self._state.now()
            chunk, order = chunk_of(batch, positions, self._next_sequence, now)
            self._next_sequence += len(chunk)  # rejected deliveries leave gaps in the sequence
            with self._lock:
                refused = self._state.refused(chunk)
            kept, buried, rejected = self._divided(chunk, refused, order)
            entries = entries_of(batch, known, rejected)
            change = self._store.delivered(kept, entries)
            if len(buried):
                change += self._store.died(
                    DeadRow(number, 0, "overflow", now) for number in chunk.sequence[buried].tolist()
                )
            if change:
                self._store.write(change)
                reach("mailboxes.deliver")
            self.window.record(entries)
            dropped = 0 if kept is None else self._enter(kept, buried, now)
            names, waiting = self._not_delivered(batch, positions, rejected)
        delivered = (0 if kept is None else len(kept)) - len(buried)
        return DeliverReport(delivered, len(batch) - len(positions), len(buried), dropped, rejected, names, waiting)

    def _divided(
        self, chunk: Chunk, refused: NDArray[np.int64], order: NDArray[np.int64]
    ) -> tuple[Chunk | None, NDArray[np.int64], NDArray[np.int64]]:
        """Returns the part of the chunk to store, the rows of it that become dead letters, and the positions of the batch that are
        rejected."""
        nothing = np.empty(0, np.int64)
        if not len(chunk):
            return None, nothing, nothing
        if not len(refused) or self._settings.overflow == "dead-letter":
            return chunk, refused, nothing
        if len(refused) == len(chunk):
            return None, nothing, np.sort(order)
        chunk.settle(refused)
        return merged([chunk]), nothing, np.sort(order[refused])

    def _enter(self, chunk: Chunk, buried: NDArray[np.int64], now: float) -> int:
        """Puts the deliveries into their mailboxes. Returns how many others were dropped to make room."""
        with self._lock:
            arrivals, dropped = self._state.store(chunk, buried, now)
        for start in range(0, len(arrivals), PORTION):
            portion = arrivals[start : start + PORTION]
            with self._lock:
                dropped += self._state.enter(portion)
                for code, _, _ in portion:
                    self._waiters.notify(code)
        return dropped

    def _not_delivered(
        self, batch: DeliveryBatch, positions: NDArray[np.int64], rejected: NDArray[np.int64]
    ) -> tuple[tuple[str | int, ...], int]:
        """Counts rejections and repetitions. Returns the names of the subscribers whose mailboxes are full, and the number of deliveries
        that wait there."""
        if not len(rejected) and len(positions) == len(batch):
            return (), 0
        names, waiting = [], 0
        with self._lock:
            for code, count in _counts(batch.subscribers[rejected]):
                box = self._state.boxes[code]
                box.rejected += count
                names.append(self._state.name(code))
                waiting += len(box)
            for code, count in _counts(np.delete(batch.subscribers, positions)):
                self._state.boxes[code].duplicates += count
                self._state.boxes.emptied(code)
        return tuple(names), waiting


def _counts(codes: NDArray[Any]) -> Iterable[tuple[int, int]]:
    values, counts = np.unique(codes, return_counts=True)
    return zip(values.tolist(), counts.tolist(), strict=True)
