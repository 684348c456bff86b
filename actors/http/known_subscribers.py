"""Whether anybody has subscribed under the name that a client polls. A misspelt name would otherwise wait for ever, without any message."""

from __future__ import annotations

import time
from typing import Any

from actors.http.backend import Backend
from actors.http.tokens import Client
from ray_pubsub.errors import RayPubSubError, UnknownSubscriberWarning

__all__ = ["KnownSubscribers"]

PATIENCE, PAUSE = 1.0, 60.0
"""The seconds that the registry has for its answer, and the seconds until it is asked again if it gave none."""
AGAIN = 5.0
"""The seconds for which a name that was unknown is not asked for again."""
MOST, LONGEST = 100_000, 1000
"""The most names to remember, and the most characters of one."""


class KnownSubscribers:
    """Asks the registry when nothing waits for a name. It is not an error, because a consumer may be started before its first subscription
    is made. Used by the event loop only."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._known: dict[str, None] = {}
        self._unknown: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._not_before = 0.0

    async def warning(self, subscriber: str, client: Client) -> str | None:
        """Returns what the client should know, or None if the name is known. It names similar subscribers only if the client may act for
        them."""
        now = time.monotonic()
        if subscriber in self._known or now < self._not_before:
            return None
        until, similar = self._unknown.get(subscriber, (0.0, ()))
        if now >= until:
            try:
                known, similar = await self._backend.ask("registry", "is_subscriber", subscriber, timeout=PATIENCE)
            except RayPubSubError:
                self._not_before = now + PAUSE  # the registry restarts, and polls must not slow down
                return None
            self._unknown.pop(subscriber, None)
            if known:
                _remember(self._known, subscriber, None)
                return None
            _remember(self._unknown, subscriber, (now + AGAIN, similar))
        allowed = tuple(name for name in similar if client.may(f"subscribe:{name}"))
        return str(UnknownSubscriberWarning(subscriber, allowed))


def _remember(names: dict[str, Any], name: str, value: Any) -> None:
    if len(name) > LONGEST:
        return
    names[name] = value
    if len(names) > MOST:
        del names[next(iter(names))]
