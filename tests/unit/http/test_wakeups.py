"""Who is woken, and when, without a server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.http.streams.wakeups import Wakeups
from actors.mailboxes.arrivals import Arrived


class Away:
    """A server that is not there."""

    ready = False


def waiting() -> Wakeups:
    backend: Any = Away()
    return Wakeups(backend)


async def test_only_the_waiters_of_the_subscriber_are_woken() -> None:
    wakeups, woken = waiting(), []
    ann, bob = (lambda: woken.append("ann")), (lambda: woken.append("bob"))
    wakeups.add("ann", ann)
    wakeups.add("bob", bob)
    wakeups.wake("ann")
    wakeups.remove("ann", ann)
    wakeups.wake("ann")
    assert (woken, len(wakeups)) == (["ann"], 1)


async def test_nobody_is_woken_before_what_was_announced_is_due() -> None:
    """Of several timers within a moment the last counts: a look at that time finds all of it."""
    wakeups, loop = waiting(), asyncio.get_running_loop()
    woken: list[float] = []
    last = asyncio.Event()
    due = [loop.time() + seconds for seconds in (0.01, 0.02, 0.03, 0.11)]

    def note() -> None:
        woken.append(loop.time())
        if loop.time() >= due[-1]:
            last.set()

    wakeups.add("ann", note)
    for each in due:
        wakeups.wake_in("ann", each - loop.time())
    await asyncio.wait_for(last.wait(), 30)
    assert len(woken) <= len(due)
    assert woken[-1] >= due[-1]


async def test_a_wait_ends_with_a_wakeup_or_with_its_time() -> None:
    wakeups = waiting()
    await wakeups.wait("ann", 0.01)
    task = asyncio.create_task(wakeups.wait("ann", 60))
    await asyncio.sleep(0)
    wakeups.wake("ann")
    await asyncio.wait_for(task, 30)
    assert len(wakeups) == 0


class Following:
    """A server that counts the calls that follow its arrivals, and answers each after the next arrival."""

    ready = True

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.arrived = asyncio.Event()

    async def ask(self, actor: str, method: str, after: Any, wait: float, timeout: float) -> Arrived:
        self.calls.append(after)
        if after is None:
            return Arrived(("instance", 0), None)
        await self.arrived.wait()
        self.arrived.clear()
        return Arrived(("instance", after[1] + 1), ("ann",))


async def turns() -> None:
    """Lets whatever can run do so."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_arrivals_are_followed_only_while_somebody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.http.streams.wakeups.TOGETHER", 0)
    server: Any = Following()
    wakeups, woken = Wakeups(server), asyncio.Event()
    wakeups.start()
    try:
        await turns()
        assert server.calls == []
        wakeups.add("ann", woken.set)
        await asyncio.wait_for(woken.wait(), 30)  # what arrived before the first call is not known
        woken.clear()
        await turns()
        wakeups.remove("ann", woken.set)
        server.arrived.set()
        await turns()
        assert server.calls == [None, ("instance", 0)] and not woken.is_set()
        wakeups.add("ann", woken.set)
        await turns()
        assert server.calls[2:] == [("instance", 1)]  # from where the last one ended
        server.arrived.set()
        await asyncio.wait_for(woken.wait(), 30)
    finally:
        await wakeups.stop()
