"""Tells a follower of all mailboxes where deliveries have arrived: an HTTP process asks once on behalf of thousands of idle consumers."""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

__all__ = ["Arrivals", "Arrived"]

MOST_KEPT = 65_536
"""The most mailboxes remembered. A follower that has missed more must look into all of its mailboxes."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """The mailboxes in which deliveries may wait. `after` is the argument of the next call."""

    after: tuple[str, int]
    subscribers: tuple[str | int, ...] | None
    """None if it is not known which, because the mailboxes were restarted or the follower is late; the follower must look into all of
    them."""


class Arrivals:
    """The recent arrivals. Not thread-safe: `Mailboxes` holds the lock. Nothing is recorded until somebody follows."""

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
        """Returns the arrivals since `after`, or None if there are none."""
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
        """Registers an event that is set with every arrival."""
        self._followers.add(event)

    def remove(self, event: threading.Event) -> None:
        self._followers.discard(event)
