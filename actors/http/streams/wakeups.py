"""Wakes those who wait for deliveries. One call follows the arrivals of all mailboxes."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable

from actors.http.backend import Backend
from ray_pubsub.errors import RayPubSubError

__all__ = ["Wakeups"]

logger = logging.getLogger(__name__)

TOGETHER = 0.01
"""The seconds between two calls: what arrives meanwhile is reported together. A call may also be answered at once, without any arrival,
because too many calls wait there."""
FOLLOW = 10.0
"""The seconds of one call."""
PAUSE = 0.5
LOOK_EVERY = 300.0
"""The seconds after which all waiters look again, whatever was reported, because visibility timeouts of another program are not
reported."""
SLICE = 200
"""When all waiters are woken, this many are woken at once, every SLICE_PAUSE seconds."""
SLICE_PAUSE = 0.05

Waiter = Callable[[], None]


class Wakeups:
    """The waiters by subscriber. Used by the event loop only."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._waiters: dict[str, set[Waiter]] = {}
        self._timers: dict[tuple[str, float], asyncio.TimerHandle] = {}
        self._task: asyncio.Task[None] | None = None
        self._waited_for = asyncio.Event()
        """Set while anybody waits. Otherwise no call follows the arrivals: one for each publication would take longer than the publication
        itself, and what arrives meanwhile is reported by the next call."""

    def __len__(self) -> int:
        return sum(map(len, self._waiters.values()))

    def start(self) -> None:
        self._task = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def add(self, subscriber: str, waiter: Waiter) -> None:
        """Registers `waiter`, which is called whenever something may wait for the subscriber. It must not block."""
        self._waiters.setdefault(subscriber, set()).add(waiter)
        self._waited_for.set()

    def remove(self, subscriber: str, waiter: Waiter) -> None:
        waiting = self._waiters.get(subscriber)
        if waiting is not None:
            waiting.discard(waiter)
            if not waiting:
                del self._waiters[subscriber]
            if not self._waiters:
                self._waited_for.clear()

    def wake(self, subscriber: str) -> None:
        for waiter in tuple(self._waiters.get(subscriber, ())):
            waiter()

    def wake_everybody(self) -> None:
        for subscriber in tuple(self._waiters):
            self.wake(subscriber)

    def wake_in(self, subscriber: str, seconds: float) -> None:
        """Wakes a subscriber's waiters in this number of seconds, when deliveries come back by a timer. Timers that end at about the
        same time are combined into one, which ends when the last of them is due."""
        loop = asyncio.get_running_loop()
        width = 0.05 if seconds < 1 else 1.0
        due = (math.floor((loop.time() + seconds) / width) + 1) * width
        key = (subscriber, due)
        if key not in self._timers:
            self._timers[key] = loop.call_at(due, self._due, key)

    def _due(self, key: tuple[str, float]) -> None:
        del self._timers[key]
        self.wake(key[0])

    async def wait(self, subscriber: str, seconds: float) -> None:
        """Returns when something may wait for the subscriber, or after this time."""
        woken = asyncio.Event()
        self.add(subscriber, woken.set)
        try:
            await asyncio.wait_for(woken.wait(), seconds)
        except TimeoutError:
            pass
        finally:
            self.remove(subscriber, woken.set)

    async def _follow(self) -> None:
        after: tuple[str, int] | None = None
        loop = asyncio.get_running_loop()
        looked = loop.time()
        while True:
            try:
                await self._waited_for.wait()
                if self._backend.ready:
                    found = await self._backend.ask("mailboxes", "arrivals", after, FOLLOW, timeout=FOLLOW + 20)
                    after = found.after
                    if found.subscribers is None or loop.time() - looked > LOOK_EVERY:
                        looked = loop.time()
                        await self._wake_all(tuple(self._waiters))
                    else:
                        await self._wake_all(name for name in found.subscribers if isinstance(name, str))
                        await asyncio.sleep(TOGETHER)
                    continue
            except RayPubSubError as error:
                logger.debug("arrivals are not known: %s", error)
                after = None
            except Exception:
                logger.exception("arrivals are not known")
                after = None
            await asyncio.sleep(PAUSE)

    async def _wake_all(self, subscribers: Iterable[str]) -> None:
        """Wakes waiters a few at a time, because each of them polls."""
        for count, name in enumerate(subscribers, 1):
            if name in self._waiters:
                self.wake(name)
            if not count % SLICE:
                await asyncio.sleep(SLICE_PAUSE)
