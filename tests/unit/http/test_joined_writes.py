"""What a client gets, piece by piece."""

from __future__ import annotations

import asyncio
from typing import Any

from actors.http.connections.joined_writes import JoinedWrites

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Recording:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.written.append(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_extra_info(self, name: str) -> Any:
        return name


def joined() -> tuple[JoinedWrites, Recording]:
    own: Any = Recording()
    return JoinedWrites(own, asyncio.get_running_loop()), own


async def test_a_head_and_its_body_are_one_piece() -> None:
    writes, own = joined()
    for _ in range(2):
        writes.write(HEAD)
        writes.write(b"{}")
    await asyncio.sleep(0)
    assert own.written == [HEAD + b"{}"] * 2


async def test_a_head_without_a_body_does_not_wait_for_one() -> None:
    """As that of a stream of events, which may come much later."""
    writes, own = joined()
    writes.write(HEAD)
    await asyncio.sleep(0)
    assert own.written == [HEAD]
    writes.write(b"data: 1\n\n")
    assert own.written == [HEAD, b"data: 1\n\n"]


async def test_what_waits_is_written_before_the_connection_is_closed() -> None:
    writes, own = joined()
    writes.write(HEAD)
    writes.close()
    await asyncio.sleep(0)
    assert own.written == [HEAD] and writes.is_closing() and writes.get_extra_info("peername") == "peername"
