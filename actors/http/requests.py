"""One HTTP request and its response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl

from actors.http.connections.whole_messages import whole_body
from actors.http.encoding import JSON, MSGPACK, decoded
from actors.http.problems import HttpError
from actors.http.tokens import Client

__all__ = ["Receive", "Request", "Response", "Send"]

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
NOBODY = Client("", frozenset())
PLAIN_JSON = frozenset({b"", b"application/json"})
"""What most requests have as their content type."""
KNOWN_QUERIES = 128
SLOWEST_BODY, WHOLE_BODY = 60.0, 120.0
"""The seconds to wait for the next part of a body, and for the end of one that is read as a whole."""


class Response:
    """A response: status, document or bytes, headers. A document is written in the format that the client accepts."""

    __slots__ = ("body", "headers", "kind", "status")

    def __init__(
        self, body: Any = None, status: int = 200, kind: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        """`kind` is the media type of a body that is bytes."""
        self.body = body
        self.status = status
        self.kind = kind
        self.headers = headers or {}


class Request:
    """A request. Its query is parsed when it is first needed; the body can be read only once."""

    __slots__ = ("_query", "_receive", "client", "headers", "limit", "path", "scope", "send")

    def __init__(self, scope: Any, receive: Receive, send: Send, limit: int) -> None:
        self.scope = scope
        self._receive = receive
        self.send = send
        self.limit = limit
        self.path: dict[str, str] = {}
        """The variable parts of the path."""
        self.client = NOBODY
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        """By name in lower case; of several headers of one name the last one."""
        self._query: Mapping[str, str] | None = None

    def header(self, name: str) -> str | None:
        found = self.headers.get(name.encode())
        return None if found is None else found.decode("latin-1")

    @property
    def kind(self) -> str:
        """The media type of the body."""
        given = self.headers.get(b"content-type", b"")
        if given in PLAIN_JSON:
            return JSON
        return given.decode("latin-1").partition(";")[0].strip().lower()

    @property
    def answer_kind(self) -> str:
        """The media type that the client accepts for the response."""
        accepted = self.headers.get(b"accept", b"")
        return MSGPACK if b"application/msgpack" in accepted or b"application/x-msgpack" in accepted else JSON

    def query(self, name: str) -> str | None:
        if self._query is None:
            if not self.scope["query_string"]:
                return None
            self._query = _read_query(self.scope["query_string"])
        return self._query.get(name)

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        """Returns a whole number from the query."""
        given = self.query(name)
        if given is None:
            return default
        try:
            found = int(given)
        except ValueError:
            found = least - 1
        if not least <= found <= most:
            raise HttpError(422, f"{name} must be a whole number from {least} to {most}, not {given!r}", setting=name)
        return found

    def seconds(self, name: str, default: float, most: float) -> float:
        """Returns a number of seconds from the query."""
        given = self.query(name)
        try:
            found = default if given is None else float(given)
        except ValueError:
            found = -1.0
        if not 0 <= found <= most:
            raise HttpError(422, f"{name} must be a number of seconds from 0 to {most:g}, not {given!r}", setting=name)
        return found

    def flag(self, name: str, default: bool = False) -> bool:
        given = self.query(name)
        if given is None:
            return default
        if given.lower() not in ("1", "true", "yes", "0", "false", "no", ""):
            raise HttpError(422, f"{name} must be true or false, not {given!r}", setting=name)
        return given.lower() in ("1", "true", "yes", "")

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yields the parts of the body as they arrive."""
        self._check_encoding()
        while True:
            try:
                message = await asyncio.wait_for(self._receive(), SLOWEST_BODY)
            except TimeoutError:
                raise HttpError(408, f"nothing of the body has come for {SLOWEST_BODY:g} s") from None
            if message["type"] == "http.disconnect":
                raise ConnectionResetError("the client has gone")
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body"):
                return

    async def body(self) -> bytes:
        """Returns the whole body. Raises HttpError if it is larger than the limit, or comes too slowly."""
        self._check_encoding()
        whole = whole_body(self._receive)
        if whole is not None:
            self._check(len(whole))
            return whole
        message = self._there()
        if message is not None and not message.get("more_body"):
            return await self._body(
                message
            )  # it came with the head: there is nothing to wait for, and no time to limit
        try:
            async with asyncio.timeout(WHOLE_BODY):
                return await self._body(await self._receive() if message is None else message)
        except TimeoutError:
            raise HttpError(408, f"the body has not come within {WHOLE_BODY:g} s") from None

    def _there(self) -> Any:
        """Returns the next message if it is there already, otherwise None."""
        receiving: Any = self._receive()
        try:
            receiving.send(None)
        except StopIteration as received:
            return received.value
        receiving.close()
        return None

    async def _body(self, message: Any) -> bytes:
        """Returns the body that begins with this message; most come in one part."""
        if message["type"] == "http.disconnect":
            raise ConnectionResetError("the client has gone")
        first: bytes = message.get("body", b"")
        if not message.get("more_body"):
            self._check(len(first))
            return first
        parts, size = [first], len(first)
        async for part in self.chunks():
            size += len(part)
            self._check(size)
            parts.append(part)
        return b"".join(parts)

    def _check_encoding(self) -> None:
        encoding = self.header("content-encoding") if b"content-encoding" in self.headers else None
        if encoding is not None and encoding.lower() != "identity":
            raise HttpError(415, f"bodies are sent as they are, not with the Content-Encoding {encoding!r}")

    def _check(self, size: int) -> None:
        if size > self.limit:
            raise HttpError(
                413, f"the body is larger than {self.limit:,} bytes; send NDJSON, which may be longer", limit=self.limit
            )

    async def data(self) -> Any:
        """Returns the body decoded as JSON or msgpack, by its media type."""
        kind = self.kind
        if kind == "application/x-msgpack":
            kind = MSGPACK
        return decoded(await self.body(), kind)

    async def fields(self, *needed: str) -> dict[str, Any]:
        """Returns the body, a JSON or msgpack object that must have these fields."""
        found = await self.data()
        if not isinstance(found, dict):
            raise HttpError(422, "the body must be an object")
        missing = [name for name in needed if name not in found]
        if missing:
            raise HttpError(422, f"the body lacks {', '.join(missing)}", missing=missing)
        return found

    async def disconnected(self) -> None:
        """Returns when the client has disconnected."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


@lru_cache(KNOWN_QUERIES)
def _read_query(query: bytes) -> Mapping[str, str]:
    """Reads a query, of which clients send the same ones again and again. Raises HttpError."""
    try:
        return MappingProxyType(dict(parse_qsl(query.decode("latin-1"), True, True, max_num_fields=50)))
    except ValueError as error:
        raise HttpError(400, f"the query cannot be read: {error}") from None
