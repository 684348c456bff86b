"""Requests and responses that are there as a whole, without ASGI's messages. To wait for one that is there takes uvicorn five calls, and of
a response it searches every header for characters that must not be there, which takes as long as all that this interface does with a reply
of the server."""

from __future__ import annotations

from typing import Any

from actors.http.connections.joined_writes import JoinedWrites

__all__ = ["whole_body", "write_document"]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\ncache-control: no-store\r\nx-content-type-options: nosniff\r\n\r\n"


def whole_body(receive: Any) -> bytes | None:
    """Returns the body of a request that came with its head. Returns None if more has to come, if uvicorn has something to do first, or if
    this is not uvicorn's `receive` of a `BoundedConnection`."""
    cycle: Any = getattr(receive, "__self__", None)
    if type(getattr(cycle, "transport", None)) is not JoinedWrites:
        return None
    if (
        cycle.more_body
        or cycle.disconnected
        or cycle.response_complete
        or cycle.waiting_for_100_continue
        or cycle.flow.read_paused
    ):
        return None
    body, cycle.body = bytes(cycle.body), bytearray()
    cycle.message_event.clear()
    return body


def write_document(send: Any, kind: bytes, document: bytes) -> bool:
    """Answers a request with 200 and a document; `kind` is a media type of ours. Returns False if this is not uvicorn's `send` of a
    `BoundedConnection`, or if uvicorn has to write the response: it also closes connections, waits for slow clients, and knows what HEAD
    is."""
    cycle: Any = getattr(send, "__self__", None)
    if type(getattr(cycle, "transport", None)) is not JoinedWrites:
        return False
    if (
        cycle.response_started
        or cycle.disconnected
        or not cycle.keep_alive
        or cycle.flow.write_paused
        or cycle.default_headers
        or cycle.access_log
        or cycle.scope["method"] == "HEAD"
    ):
        return False
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    cycle.transport.write(HEAD % (kind, len(document)) + document)
    cycle.message_event.set()
    cycle.on_response()
    return True
