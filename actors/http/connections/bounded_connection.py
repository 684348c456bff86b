"""uvicorn's connection with bounds. uvicorn itself keeps whatever a client sends before its request is complete, and waits for the rest
for ever: one client could fill the memory of the process, or hold all its connections, without a token.

A request's body is bounded where it is read (`requests.py`); a client that does not read what it gets is given up by TCP (`serving.py`).
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from actors.http.connections.joined_writes import JoinedWrites

__all__ = ["BoundedConnection"]

LARGEST_HEAD = 32_768
"""The most bytes of a request line and its headers."""
MOST_HEADERS = 200
MOST_PIPELINED = 256
"""The most requests that may wait behind one that is not answered yet."""
SLOWEST_HEAD = 20.0
"""The seconds within which a request's head must have come, from the first byte or, of a new connection, from its beginning."""
OFFER = re.compile(rb"\r\nupgrade:[ \t]*h2c[ \t]*(?=\r\n)", re.IGNORECASE)
"""What Java's HttpClient adds to every request, unless that is switched off. The parser would take it for the end of HTTP, and drop the
body."""
REFUSED = {
    431: b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    408: b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    503: b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    429: b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
}


class BoundedConnection(HttpToolsProtocol):
    """Ends connections that send too much, or too slowly, before a request is complete. What may come beyond that is what has been read at
    once, at most 256 kB."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head = 0
        """The bytes of the head that is not complete, without those that came together with an earlier request."""
        self._in_head = self._completed = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        joined: Any = JoinedWrites(transport, self.loop)
        super().connection_made(joined)
        most = self.config.limit_concurrency
        if most is not None and len(self.connections) > most:
            self._refuse(503)
        else:
            self._timer = self.loop.call_later(SLOWEST_HEAD, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if b"h2c" in data and not self._in_head and (self.cycle is None or not self.cycle.more_body):
            head, end, rest = data.partition(b"\r\n\r\n")
            data = OFFER.sub(b"", head + end) + rest
        self._completed = False
        super().data_received(data)
        if len(self.pipeline) > MOST_PIPELINED:
            self._refuse(429)
            return
        if not self._in_head and self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
            return
        if self._timer is None:
            self._timer = self.loop.call_later(SLOWEST_HEAD, self._late)
        if self._in_head:
            self._head += 0 if self._completed else len(data)
            if self._head > LARGEST_HEAD or len(self.headers) > MOST_HEADERS or len(self.url) > LARGEST_HEAD:
                self._refuse(431)

    def on_message_begin(self) -> None:
        self._in_head, self._head = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head, self._completed = False, True
        super().on_headers_complete()

    def _late(self) -> None:
        self._timer = None
        self._refuse(408)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int) -> None:
        """Ends the connection; while another request is being answered, without a word, which would be taken for a part of its answer."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(REFUSED[status])
        self.transport.close()
