"""How many requests a webhook sends at once, to a real endpoint that counts them; the mailbox is a list."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from actors.http.webhooks.breaker import Breaker
from actors.http.webhooks.webhook import Webhook
from actors.http.webhooks.worker import WebhookWorker, WebhookWorkers
from actors.mailboxes.delivery import Delivery, Receipt

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PATIENCE = 30.0


class Endpoint:
    """Answers each request with what `answer` gives for its number, and counts the requests that wait for an answer at once."""

    def __init__(self, answer: Callable[[int], str]) -> None:
        self.answer = answer
        self.got = self.now = self.most = 0
        self.full = asyncio.Event()
        """Set when `awaited` requests are there at once."""
        self.awaited = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length"))
        await reader.readexactly(int(length.partition(b":")[2]))
        self.got += 1
        answer = self.answer(self.got)
        self.now += 1
        self.most = max(self.most, self.now)
        if self.now == self.awaited:
            self.full.set()
        await self.gate.wait()
        self.now -= 1
        writer.write(f"HTTP/1.1 {answer}\r\n\r\n".encode())
        await writer.drain()
        writer.close()


class Mailbox:
    """What the worker asks of the backend and of the wake-ups. A nack makes the delivery wait again at once, whatever its delay is."""

    def __init__(self, count: int) -> None:
        self.waiting = [delivery(number, 1) for number in range(count)]
        self.polled: list[int] = []
        self.settled: list[tuple[Any, ...]] = []
        self.done = asyncio.Event()
        self.expected = count
        self.wake: Callable[[], None] = lambda: None

    def add(self, subscriber: str, waiter: Callable[[], None]) -> None:
        self.wake = waiter

    def remove(self, subscriber: str, waiter: Callable[[], None]) -> None: ...

    def wake_in(self, subscriber: str, seconds: float) -> None:
        self.wake()

    async def poll(self, subscriber: str, limit: int, visible: float) -> list[Delivery]:
        self.polled.append(limit)
        found, self.waiting = self.waiting[:limit], self.waiting[limit:]
        return found

    async def settle(self, method: str, subscriber: str, receipts: list[Receipt], *arguments: Any) -> None:
        self.settled.append((method, *arguments))
        if method == "nack":
            self.waiting += [delivery(each.sequence, 2) for each in receipts]
        elif sum(how[0] == "ack" for how in self.settled) == self.expected:
            self.done.set()


def delivery(sequence: int, attempt: int) -> Delivery:
    return Delivery("ann", 1, sequence, "s", sequence, b"{}", 0, "low", 0.0, inf, attempt, 1, 0.0)


@asynccontextmanager
async def sending(endpoint: Endpoint, mailbox: Mailbox, concurrency: int) -> AsyncIterator[WebhookWorker]:
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    workers: Any = SimpleNamespace(
        backend=mailbox, wakeups=mailbox, allowed=("127.0.0.1/32",), timeout=PATIENCE, first_retry=0.01
    )
    worker = WebhookWorker(Webhook("w", "ann", url, SECRET, concurrency), workers)
    try:
        yield worker
    finally:
        await worker.stop()
        server.close()


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_no_more_requests_at_once_than_allowed(concurrency: int) -> None:
    endpoint, mailbox = Endpoint(lambda number: "204 x"), Mailbox(8)
    endpoint.gate.clear()
    endpoint.awaited = concurrency
    async with asyncio.timeout(PATIENCE), sending(endpoint, mailbox, concurrency) as worker:
        await endpoint.full.wait()
        assert len(mailbox.waiting) == 8 - concurrency and worker.state()["under_way"] == concurrency
        endpoint.gate.set()
        await mailbox.done.wait()
    assert (endpoint.got, endpoint.most) == (8, concurrency)
    assert max(mailbox.polled) <= concurrency


async def test_retry_after_is_respected() -> None:
    endpoint = Endpoint(lambda number: "429 x\r\nRetry-After: 120" if number == 1 else "200 x")
    mailbox = Mailbox(1)
    async with asyncio.timeout(PATIENCE), sending(endpoint, mailbox, 1):
        await mailbox.done.wait()
    assert mailbox.settled == [("nack", 120.0, "webhook: HTTP 429"), ("ack",)]


@pytest.mark.parametrize("value", ["99999999", "-5", "tomorrow", ""])
async def test_a_strange_retry_after_does_no_harm(value: str) -> None:
    endpoint = Endpoint(lambda number: f"503 x\r\nRetry-After: {value}" if number == 1 else "200 x")
    mailbox = Mailbox(1)
    async with asyncio.timeout(PATIENCE), sending(endpoint, mailbox, 1):
        await mailbox.done.wait()
    (method, delay, _), _ = mailbox.settled
    assert method == "nack" and 0 < delay <= 3600


async def test_a_paused_endpoint_is_tried_with_one_request() -> None:
    """Four at once fail and open the breaker; then one request is sent, which fails too; the next succeeds, and all others follow."""
    endpoint, mailbox = Endpoint(lambda number: "500 x" if number <= 5 else "200 x"), Mailbox(6)
    async with asyncio.timeout(PATIENCE):
        endpoint.gate.clear()
        endpoint.awaited = 4
        async with sending(endpoint, mailbox, 4) as worker:
            worker.breaker = Breaker(threshold=4, pause=0.01)
            await endpoint.full.wait()
            before = len(mailbox.polled)
            endpoint.gate.set()
            await mailbox.done.wait()
            assert worker.breaker.state(0.0) == "closed" and worker.breaker.failures == 0
    assert (endpoint.got, endpoint.most) == (5 + 6, 4)
    assert mailbox.polled[before : before + 2] == [1, 1]
    assert [how[0] for how in mailbox.settled[:6]] == ["nack"] * 5 + ["ack"]


class SlowFile:
    """A state file whose disk does not answer until the test allows it."""

    def __init__(self) -> None:
        self.began, self.answers = threading.Event(), threading.Event()
        self.stored: list[tuple[str, Any]] = []

    def part(self, part: str) -> dict[str, Any]:
        return {}

    def put(self, part: str, name: str, value: Any) -> bool:
        self.began.set()
        assert self.answers.wait(PATIENCE)
        self.stored.append((name, value and value["url"]))
        return True


async def test_a_slow_disk_keeps_nobody_waiting_and_changes_stay_in_order() -> None:
    file: Any = SlowFile()
    webhooks = WebhookWorkers(Mailbox(0), Mailbox(0), file, (), PATIENCE, 0.01)  # type: ignore[arg-type]
    first, second = (Webhook("w", "ann", f"https://example.com/{name}", SECRET, enabled=False) for name in "ab")
    async with asyncio.timeout(PATIENCE):
        changes = [asyncio.create_task(change) for change in (webhooks.put(first, None), webhooks.put(second, None))]
        await asyncio.to_thread(file.began.wait)
        assert (
            webhooks.get("w") is None and len(webhooks) == 0
        )  # the event loop answers, and nothing is used before it is stored
        file.answers.set()
        assert await asyncio.gather(*changes) == [
            True,
            False,
        ]  # the second had been checked against what the first has replaced
        assert webhooks.get("w") is first and file.stored == [("w", first.url)]
        assert await webhooks.put(second, first) and not await webhooks.remove(first)
        assert await webhooks.remove(second) and webhooks.get("w") is None
    assert file.stored == [("w", first.url), ("w", second.url), ("w", None)]
