"""Polls that wait for a delivery, by mailbox."""

from __future__ import annotations

import threading
from collections.abc import Hashable

from actors.mailboxes.arrivals import Arrivals

__all__ = ["Waiters"]


class Waiters:
    """The polls that wait. Not thread-safe: `Mailboxes` holds the lock."""

    def __init__(self) -> None:
        self._events: dict[Hashable, set[threading.Event]] = {}
        self.arrivals = Arrivals()
        """For a follower of all mailboxes."""

    def __len__(self) -> int:
        """The number of mailboxes that are waited for."""
        return len(self._events)

    def add(self, mailbox: Hashable, event: threading.Event) -> None:
        """Registers an event that is set whenever something may have arrived."""
        self._events.setdefault(mailbox, set()).add(event)

    def remove(self, mailbox: Hashable, event: threading.Event) -> None:
        waiting = self._events[mailbox]
        waiting.discard(event)
        if not waiting:
            del self._events[mailbox]

    def notify(self, mailbox: Hashable) -> None:
        self.arrivals.record(mailbox)
        if self._events:
            for event in self._events.get(mailbox, ()):
                event.set()
