"""The server's statistics, requested at most once a second however many clients ask for them."""

from __future__ import annotations

import asyncio
import time

from actors.client.server_stats import ServerStats
from actors.http.backend import Backend

__all__ = ["StatsCache"]

FRESH = 1.0
"""The seconds for which statistics are reused."""
HOT = 10
"""The number of subscriptions with the most matches to ask for."""


class StatsCache:
    """Caches statistics. Used by the event loop only."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._found: ServerStats | None = None
        self._asked = 0.0
        self._lock = asyncio.Lock()

    async def get(self) -> ServerStats:
        async with self._lock:
            # While the server is away it is asked all the same, so that the caller gets the error and not old numbers.
            if self._found is None or time.monotonic() - self._asked >= FRESH or not self._backend.ready:
                self._found = await self._backend.run(self._backend.server.stats, hot=HOT)
                self._asked = time.monotonic()
            return self._found
