"""Which mailboxes had something arrive, for a follower of all of them: an HTTP process asks once for thousands of idle consumers."""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

__all__ = ["Arrivals", "Arrived"]

MOST_KEPT = 65_536
"""Mailboxes remembered. A follower that has missed more looks into all of its mailboxes."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """Something may wait in these mailboxes. `after` is the argument of the next call."""

    after: tuple[str, int]
    subscribers: tuple[str | int, ...] | None
    """None: it is not known which, because the mailboxes were restarted or the follower is late; all are to be looked into."""


class Arrivals:
    """Not safe for threads: `Mailboxes` has the lock. Records nothing until somebody follows."""

    def __init__(self) -> None:
        self._instance = uuid.uuid4().hex
        self._serial = 0
        self._forgotten = 0
        self._recent: OrderedDict[Hashable, int] = OrderedDict()
        self._followers: set[threading.Event] = set()
        self._followed = False

    def record(self, mailbox: Hashable) -> None:
        if not self._followed:
            return
        self._serial += 1
        self._recent[mailbox] = self._serial
        self._recent.move_to_end(mailbox)
        if len(self._recent) > MOST_KEPT:
            self._forgotten = self._recent.popitem(last=False)[1]
        for event in self._followers:
            event.set()

    def since(self, after: tuple[str, int] | None, name: Callable[[Hashable], str | int]) -> Arrived | None:
        """What has arrived since; None if nothing has."""
        now = (self._instance, self._serial)
        if not self._followed or after is None or after[0] != self._instance or after[1] < self._forgotten:
            self._followed = True
            return Arrived(now, None)
        if after[1] >= self._serial:
            return None
        found = []
        for mailbox in reversed(self._recent):
            if self._recent[mailbox] <= after[1]:
                break
            found.append(name(mailbox))
        return Arrived(now, tuple(found))

    def nothing(self) -> Arrived:
        return Arrived((self._instance, self._serial), ())

    def add(self, event: threading.Event) -> None:
        """The event is set with every arrival."""
        self._followers.add(event)

    def remove(self, event: threading.Event) -> None:
        self._followers.discard(event)
