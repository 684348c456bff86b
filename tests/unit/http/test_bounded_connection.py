"""Clients without a token that send too much or too slowly, at a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from actors.http.connections import bounded_connection
from actors.http.connections.bounded_connection import LARGEST_HEAD, MOST_HEADERS, MOST_PIPELINED
from actors.http.serving import listening_socket, uvicorn_server
from actors.http.settings import HttpSettings

BEGIN = b"GET / HTTP/1.1\r\nhost: x\r\n"
POST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n%s\r\n"
PATIENCE = 60.0


async def counting(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the number of bytes of the body; at /wait never."""
    if scope["type"] == "lifespan":
        for _ in range(2):
            await send({"type": f"{(await receive())['type']}.complete"})
        return
    if scope["path"] == "/wait":
        while (await receive())["type"] != "http.disconnect":
            pass
        return
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    headers = [(b"content-length", b"8")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"%8d" % size})


@asynccontextmanager
async def served(**settings: Any) -> AsyncIterator[int]:
    given = HttpSettings(port=0, **settings)
    listening, app = listening_socket(given), counting
    server = uvicorn_server(app, given)  # type: ignore[arg-type]
    server.install_signal_handlers = lambda: None
    running = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        await running
        listening.close()


async def sent(port: int, first: bytes, piece: bytes, most: int) -> tuple[int, bytes]:
    """Sends until the other side ends the connection; returns how much that was, and the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count, answer = 0, b""
    writer.write(first)
    try:
        while piece and count < most and not reader.at_eof():
            writer.write(piece)
            await asyncio.wait_for(writer.drain(), PATIENCE)
            count += len(piece)
            await asyncio.sleep(0)
        answer = await asyncio.wait_for(reader.read(), PATIENCE)
    except ConnectionError:
        pass
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    return count, answer


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        (b"GET /", b"a" * 4096),
        (BEGIN + b"x: ", b"a" * 4096),
        (BEGIN, b"x: y\r\n" * 500),
    ],
    ids=["the path", "a header", "headers"],
)
async def test_a_head_without_an_end_is_refused(first: bytes, piece: bytes) -> None:
    most = 100 * LARGEST_HEAD
    async with served() as port:
        count, answer = await sent(port, first, piece, most)
        assert count < most, "all of it was read"
        assert answer[:12] in (b"HTTP/1.1 431", b"")  # with much still to be read, a reset may overtake the answer
        assert (await sent(port, BEGIN + b"connection: close\r\n\r\n", b"", 0))[1].endswith(b"       0")


async def test_a_long_head_and_many_headers_that_end_are_read() -> None:
    head = (
        BEGIN
        + b"connection: close\r\n"
        + b"x: %s\r\n" % (b"a" * (LARGEST_HEAD // 2))
        + b"y: z\r\n" * (MOST_HEADERS // 2)
    )
    async with served() as port:
        assert (await sent(port, head + b"\r\n", b"", 0))[1].startswith(b"HTTP/1.1 200")


async def test_a_head_that_does_not_come_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_connection, "SLOWEST_HEAD", 0.05)
    async with served() as port:
        for begun in (b"", b"GET / HT", BEGIN, b"\r\n"):
            assert (await sent(port, begun, b"", 0))[1].startswith(b"HTTP/1.1 408"), begun
        # Also after a request that was answered.
        answers = (await sent(port, BEGIN + b"\r\n" + BEGIN, b"", 0))[1]
        assert answers.startswith(b"HTTP/1.1 200")


async def test_requests_behind_one_that_is_not_answered_are_bounded() -> None:
    async with served() as port:
        waiting = b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n"
        assert (await sent(port, waiting + (BEGIN + b"\r\n") * (MOST_PIPELINED + 1) + b"GET", b"", 0))[1] == b""


async def test_connections_are_bounded() -> None:
    async with served(max_connections=2) as port:
        held = [await asyncio.open_connection("127.0.0.1", port)]
        held[0][1].write(BEGIN + b"\r\n")
        assert (await asyncio.wait_for(held[0][0].readline(), PATIENCE)).startswith(b"HTTP/1.1 200")
        held.append(await asyncio.open_connection("127.0.0.1", port))
        assert (await sent(port, b"", b"", 0))[1].startswith(b"HTTP/1.1 503")
        for _, writer in held:
            writer.close()


async def answers(reader: asyncio.StreamReader, count: int) -> bytes:
    found = b""
    for _ in range(count):
        found += await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        found += await asyncio.wait_for(reader.readexactly(8), PATIENCE)
    assert found.count(b"HTTP/1.1 200") == count
    return found


async def test_what_is_usual_is_not_disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large body, several requests at once, and Java's offer of HTTP/2, on one connection and slower than a head may be."""
    monkeypatch.setattr(bounded_connection, "SLOWEST_HEAD", 0.05)
    body = b"x" * 500_000
    upgrade = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAEAAEAAAAIAAAABAAMAAABk\r\n"
    async with served() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(POST % (len(body), b"") + body[:1000])
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.write(body[1000:] + (POST % (3, b"") + b"abc") * 20)
        found = await answers(reader, 21)
        assert b"  500000" in found and found.count(b"       3") == 20
        for _ in range(2):
            writer.write(POST % (4, upgrade) + b"abcd")
            assert (await answers(reader, 1)).endswith(b"       4")
        writer.close()
