"""How a batch gets into the mailboxes: what is news, what fits, on disk, and then in."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.admission import chunk_of, entries_of, news
from actors.arrivals import Arrivals
from actors.delivery_batch import DeliverReport, DeliveryBatch
from actors.delivery_chunk import Chunk, merged
from actors.mailbox_settings import MailboxSettings
from actors.mailbox_state import MailboxState
from actors.mailbox_store import DeadRow, MailboxStore, Stored
from actors.publish_window import PublishWindow

__all__ = ["MailboxIntake"]

PORTION = 256
"""Mailboxes filled in a row; a batch for very many must not keep everybody's polls waiting."""


class MailboxIntake:
    """One batch at a time: so what is told as a repetition is on disk already, and the room that was found is still there.

    `held` is taken before the lock of the state, and is the only one held while waiting for the disk, so polls never wait for it.
    """

    def __init__(
        self,
        store: MailboxStore,
        settings: MailboxSettings,
        state: MailboxState,
        arrivals: Arrivals,
        lock: threading.Lock,
        stored: Stored,
    ) -> None:
        self.held = threading.Lock()
        self._store = store
        self._settings = settings
        self._state = state
        self._arrivals = arrivals
        self._lock = lock
        self._next_sequence = stored.next_sequence
        self._window = PublishWindow(settings.window)
        self._window.record(stored.window)

    def deliver(self, batch: DeliveryBatch) -> DeliverReport:
        batch = batch.checked(len(self._settings.levels))
        with self.held:
            self._store.check()
            positions = news(batch, self._window)
            with self._lock:
                now = self._state.now()
            chunk, order = chunk_of(batch, positions, self._next_sequence, now)
            self._next_sequence += len(chunk)  # rejected ones leave gaps
            with self._lock:
                refused = self._state.refused(chunk)
            kept, buried, rejected = self._divided(chunk, refused, order)
            entries = entries_of(batch, self._window, rejected)
            change = self._store.delivered(kept, entries, self._settings.window)
            change += self._store.died(
                DeadRow(number, 0, "overflow", now) for number in chunk.sequence[buried].tolist()
            )
            if change:
                self._store.write(change)
            self._window.record(entries)
            dropped = 0 if kept is None else self._enter(kept, buried, now)
            names, waiting = self._not_delivered(batch, positions, rejected)
        delivered = (0 if kept is None else len(kept)) - len(buried)
        return DeliverReport(delivered, len(batch) - len(positions), len(buried), dropped, rejected, names, waiting)

    def _divided(
        self, chunk: Chunk, refused: NDArray[np.int64], order: NDArray[np.int64]
    ) -> tuple[Chunk | None, NDArray[np.int64], NDArray[np.int64]]:
        """What of the chunk is stored, which of its rows as dead letters, and which positions of the batch are rejected."""
        nothing = np.empty(0, np.int64)
        if not len(chunk):
            return None, nothing, nothing
        if not len(refused) or self._settings.overflow == "dead-letter":
            return chunk, refused, nothing
        chunk.settle(refused)
        return merged([chunk]) if chunk.live_rows else None, nothing, np.sort(order[refused])

    def _enter(self, chunk: Chunk, buried: NDArray[np.int64], now: float) -> int:
        """Returns how many deliveries left to make room."""
        with self._lock:
            arrivals, dropped = self._state.store(chunk, buried, now)
        for start in range(0, len(arrivals), PORTION):
            portion = arrivals[start : start + PORTION]
            with self._lock:
                dropped += self._state.enter(portion)
                for code, _, _ in portion:
                    self._arrivals.notify(code)
        return dropped

    def _not_delivered(
        self, batch: DeliveryBatch, positions: NDArray[np.int64], rejected: NDArray[np.int64]
    ) -> tuple[tuple[str | int, ...], int]:
        """Counts rejections and repetitions. Returns the names of those whose mailboxes are full, and how much waits there."""
        if not len(rejected) and len(positions) == len(batch):
            return (), 0
        names, waiting = [], 0
        with self._lock:
            for code, count in _counts(batch.subscribers[rejected]):
                box = self._state.box(code)
                box.rejected += count
                names.append(self._state.name(code))
                waiting += len(box)
            for code, count in _counts(np.delete(batch.subscribers, positions)):
                self._state.box(code).duplicates += count
        return tuple(names), waiting


def _counts(codes: NDArray[Any]) -> Iterable[tuple[int, int]]:
    values, counts = np.unique(codes, return_counts=True)
    return zip(values.tolist(), counts.tolist(), strict=True)
