"""The last batch of each stream that was delivered completely, by the stream's name. A batch that is repeated much later is recognised
by it, even if the keys of its events are forgotten."""

from __future__ import annotations

import threading

from actors.mailboxes.store.store import MailboxStore, Stored

__all__ = ["BatchMarks"]


class BatchMarks:
    """The marks of all streams. The batches of a stream are numbered and come in order. Every method may be called from any thread."""

    def __init__(self, store: MailboxStore, stored: Stored) -> None:
        self._store = store
        self._last = dict(stored.committed)
        self._lock = threading.Lock()

    def last(self, stream: str) -> int | None:
        """Returns the last batch of a stream that was delivered completely, or None if there is none."""
        self._store.check()
        return self._last.get(stream)

    def set(self, stream: str, batch: int) -> None:
        """Marks a batch as delivered; on return that is on disk, if there is a store. A mark never goes back."""
        with self._lock:
            if batch > self._last.get(stream, -1):
                self._store.write(self._store.committed(stream, batch))
                self._last[stream] = batch
