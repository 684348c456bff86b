"""A connection's transport that sends a short response in one piece. uvicorn writes its head and then its body, and uvloop sends each at
once: the client is woken twice, and every packet on the loopback takes as long as a fifth of the work of an answer."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["JoinedWrites"]

HEAD, END = b"HTTP/1.1 ", b"\r\n\r\n"


class JoinedWrites:
    """What uvicorn uses of a transport. A head waits for what is written in the same turn of the event loop, and no longer."""

    __slots__ = ("_head", "_loop", "_transport", "get_extra_info", "is_closing", "pause_reading", "resume_reading")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._head = b""
        self.get_extra_info, self.is_closing = transport.get_extra_info, transport.is_closing
        self.pause_reading, self.resume_reading = transport.pause_reading, transport.resume_reading

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data[: len(HEAD)] == HEAD and data[-len(END) :] == END:
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def close(self) -> None:
        self._flush()
        self._transport.close()
