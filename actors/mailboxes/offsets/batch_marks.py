"""The last batch of each stream that was delivered as a whole, by the stream's name. So a batch that is repeated long after is recognised,
even if the keys of its events are forgotten."""

from __future__ import annotations

import threading

from actors.mailboxes.store.store import MailboxStore, Stored

__all__ = ["BatchMarks"]


class BatchMarks:
    """Batches of a stream are numbered and come in order. Every method may be called from any thread."""

    def __init__(self, store: MailboxStore, stored: Stored) -> None:
        self._store = store
        self._last = dict(stored.committed)
        self._lock = threading.Lock()

    def last(self, stream: str) -> int | None:
        """None if none was."""
        self._store.check()
        return self._last.get(stream)

    def set(self, stream: str, batch: int) -> None:
        """On return it is on disk, if there is one. A mark never goes back."""
        with self._lock:
            if batch > self._last.get(stream, -1):
                self._store.write(self._store.committed(stream, batch))
                self._last[stream] = batch
