"""Replies awaited in an event loop, which keeps watching the connection from one request to the next."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from actors.transport.calls import Deadline
from actors.transport.sockets.client_pool import ClientPool
from actors.transport.sockets.socket_watch import SocketWatch
from tests.unit.transport.socket_ends import TIMEOUT, Finding, ask, content, pooled, serving


async def awaited(pool: ClientPool, *question: Any) -> Any:
    pending = ask(pool, *question)
    if pending is None:
        return None
    try:
        begun = pending.until_readable(Deadline(TIMEOUT).left)
        assert begun is not None
        await begun
        return content(pending)
    finally:
        pending.cancel()


async def test_a_connection_is_watched_once_for_many_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, added = asyncio.get_running_loop(), list[int]()
    add_reader = loop.add_reader

    def counting(descriptor: Any, *more: Any) -> None:
        added.append(descriptor)
        add_reader(descriptor, *more)

    monkeypatch.setattr(loop, "add_reader", counting)
    with serving() as server, pooled(Finding(server.address)) as pool:
        assert ask(pool, 0) is None
        for number in range(20):
            assert await awaited(pool, number) == [number]
        assert await awaited(pool, b"x" * 300_000) == [b"x" * 300_000]
    assert len(added) == 1


async def test_requests_share_a_timer_and_each_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, timers = asyncio.get_running_loop(), list[float]()
    call_at = loop.call_at

    def counting(when: float, *more: Any) -> Any:
        timers.append(when)
        return call_at(when, *more)

    monkeypatch.setattr(loop, "call_at", counting)
    one, other = socket.socketpair()
    with one, other:
        watch = SocketWatch(one, loop)
        for _ in range(20):
            begun = watch.until_readable(TIMEOUT)
            other.send(b"x")
            await begun
            assert one.recv(1) == b"x"
        assert len(timers) == 1
        started = loop.time()
        await watch.until_readable(0.01)  # less than the timer is set for
        assert loop.time() - started < TIMEOUT / 2
        watch.until_readable(0.01).cancel()
        started = loop.time()
        await watch.until_readable(0.05)  # more than the timer is set for
        assert 0.04 < loop.time() - started < TIMEOUT / 2
        watch.end()


async def test_requests_at_once_have_connections_of_their_own() -> None:
    with serving() as server, pooled(Finding(server.address)) as pool:
        while True:  # each that finds no connection has one made for the next
            answers = await asyncio.gather(*(awaited(pool, number) for number in range(5)))
            assert all(answer in (None, [number]) for number, answer in enumerate(answers))
            if None not in answers:
                break


async def test_a_server_that_ends_while_nothing_is_asked_is_no_reply_and_the_next_one_is_found() -> None:
    found = Finding(None)
    with pooled(found) as pool:
        with serving() as server:
            found.addresses = [server.address]
            assert ask(pool, 0) is None
            assert await awaited(pool, 1) == [1]
        await asyncio.sleep(0)
        with serving() as server:
            found.addresses = [server.address]
            while await awaited(pool, 2) != [2]:
                await asyncio.sleep(0)


async def test_a_request_that_is_given_up_does_not_disturb_the_next() -> None:
    began, go_on = threading.Event(), threading.Event()

    def slow(question: Any) -> Any:
        if question == "slow":
            began.set()
            assert go_on.wait(TIMEOUT)
        return question

    with serving(slow) as server, pooled(Finding(server.address)) as pool:
        assert ask(pool, 0) is None
        task = asyncio.create_task(awaited(pool, "slow"))
        await asyncio.to_thread(began.wait, TIMEOUT)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        go_on.set()
        while await awaited(pool, "quick") != "quick":
            await asyncio.sleep(0)


def test_a_connection_goes_from_loop_to_loop_and_to_threads() -> None:
    with serving() as server, pooled(Finding(server.address), most=1) as pool:
        assert ask(pool, 0) is None
        for number in range(3):
            assert asyncio.run(awaited(pool, number)) == [number]
            assert content(ask(pool, "here")) == ["here"]
        assert len(server._connections) == 1


async def test_a_pool_is_closed_by_a_thread_while_its_connections_are_watched() -> None:
    with serving() as server:
        with pooled(Finding(server.address)) as pool:
            assert ask(pool, 0) is None
            assert await awaited(pool, 1) == [1]
            await asyncio.to_thread(pool.close)
        while server._connections:
            await asyncio.sleep(0.001)
