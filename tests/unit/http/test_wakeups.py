"""Who is woken, and when, without a server."""

from __future__ import annotations

import asyncio
from typing import Any

from actors.http.streams.wakeups import Wakeups


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
