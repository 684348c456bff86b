"""Who waits for something to arrive, by mailbox: threads and coroutines alike."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable

__all__ = ["Arrivals", "wake_in_loop"]

logger = logging.getLogger(__name__)


class Arrivals:
    """Callbacks, called whenever something may have arrived. Not safe for threads: `Mailboxes` has the lock; so callbacks must not wait."""

    def __init__(self) -> None:
        self._watchers: dict[Hashable, dict[object, Callable[[], None]]] = {}

    def watch(self, mailbox: Hashable, wake: Callable[[], None]) -> Callable[[], None]:
        """Returns what ends it."""
        own = object()
        self._watchers.setdefault(mailbox, {})[own] = wake

        def stop() -> None:
            watchers = self._watchers.get(mailbox, {})
            watchers.pop(own, None)
            if not watchers:
                self._watchers.pop(mailbox, None)

        return stop

    def notify(self, mailbox: Hashable) -> None:
        if self._watchers:
            for wake in list(self._watchers.get(mailbox, {}).values()):
                try:
                    wake()
                except Exception:  # a listener's fault is not the publisher's
                    logger.exception("a watcher of mailbox %r failed", mailbox)


def wake_in_loop(event: asyncio.Event) -> Callable[[], None]:
    """Sets an event of the running loop, from whatever thread."""
    loop = asyncio.get_running_loop()

    def wake() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(event.set)

    return wake
