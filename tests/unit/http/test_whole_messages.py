"""Bodies are read and documents written past uvicorn, with the same bytes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from actors.client.publish_result import PublishResult
from actors.http.connections.bounded_connection import BoundedConnection
from actors.http.connections.whole_messages import whole_body, write_document
from actors.http.encoding import JSON
from actors.http.routes.publish_report import report_of_one
from actors.http.routes.publishing import _Options, _Total
from actors.transport.publish_reply import Delivered, level_of_one
from ray_pubsub.errors import EventError
from ray_pubsub.sharding.few_matches import FewMatches
from tests.unit.http.test_http_parts import request_of
from tests.unit.http.test_joined_writes import Recording

DOCUMENT = b'{"events":1}'
HEADERS = [
    (b"content-type", JSON.encode()),
    (b"content-length", b"%d" % len(DOCUMENT)),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
]


class Unknown(Recording):
    """A transport that says nothing about its connection."""

    def get_extra_info(self, name: str) -> Any:
        return None


async def by_uvicorn(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": DOCUMENT})


async def whole(scope: Any, receive: Any, send: Any) -> None:
    if not write_document(send, JSON.encode(), DOCUMENT):
        await by_uvicorn(scope, receive, send)


async def answered(app: Any, *requests: bytes) -> tuple[bytes, bool]:
    """Returns what a connection gets for these requests, and whether it was closed."""
    config = uvicorn.Config(app, http=BoundedConnection, server_header=False, date_header=False, access_log=False)
    config.load()
    connection, transport = BoundedConnection(config, ServerState(), {}), Unknown()
    own: Any = transport
    connection.connection_made(own)
    for request in requests:
        connection.data_received(request)
    for _ in range(20):
        await asyncio.sleep(0)
    connection._stop_timer()
    connection._unset_keepalive_if_required()
    return b"".join(transport.written), transport.closed


GET = b"GET / HTTP/1.1\r\nhost: x\r\n%s\r\n"
REQUESTS = [
    (GET % b"",),
    (GET % b"" * 3,),  # one behind the other
    (GET % b"connection: close\r\n",),
    (GET.replace(b"1.1", b"1.0") % b"",),
    (GET.replace(b"GET", b"HEAD") % b"",),
    (b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n", b"{}"),
]


@pytest.mark.parametrize("requests", REQUESTS)
async def test_a_client_gets_the_same_as_from_uvicorn(requests: tuple[bytes, ...]) -> None:
    assert await answered(whole, *requests) == await answered(by_uvicorn, *requests)


async def test_only_what_uvicorn_need_not_look_at_is_written_here() -> None:
    written: list[bool] = []

    async def noted(scope: Any, receive: Any, send: Any) -> None:
        written.append(write_document(send, JSON.encode(), DOCUMENT))
        if not written[-1]:
            await by_uvicorn(scope, receive, send)

    for requests in REQUESTS:
        await answered(noted, *requests)
    assert written == [True, True, True, True, False, False, False, True]
    assert not write_document(print, b"", b"")


async def test_a_body_is_taken_once_and_only_if_it_is_there() -> None:
    bodies: list[Any] = []

    async def reading(scope: Any, receive: Any, send: Any) -> None:
        bodies.append(whole_body(receive))
        if bodies[-1] is None:
            bodies.append((await receive())["body"])
        else:
            assert not cycle_of(receive).body and not cycle_of(receive).message_event.is_set()
        await by_uvicorn(scope, receive, send)

    def cycle_of(receive: Any) -> Any:
        return receive.__self__

    head = b"POST / HTTP/1.1\r\nhost: x\r\n%scontent-length: 4\r\n\r\n"
    await answered(reading, head % b"" + b"body")
    assert bodies == [b"body"]
    bodies.clear()
    await answered(reading, head % b"expect: 100-continue\r\n" + b"past")
    assert bodies == [None, b"past"]
    bodies.clear()
    await answered(reading, head % b"" + b"one", b"!" + head % b"" + b"two!")  # uvicorn has to read on after the first
    assert bodies == [None, b"one!", b"two!"]
    assert whole_body(answered) is None


def result(**more: Any) -> PublishResult:
    parts = [FewMatches([1, 2], [3, 3], None), FewMatches([], [], [])]
    return PublishResult(level_of_one(0), level_of_one(0), ("low",), parts, moment=1_700_000_000_000_000, **more)


@pytest.mark.parametrize("delivered", [Delivered(), Delivered(1, 2, 3, 4, 5)])
def test_the_report_about_one_event_is_the_document(delivered: Delivered) -> None:
    total = _Total(_Options(request_of(b"")))
    total.add(result(deliveries=delivered))
    report = report_of_one(result(deliveries=delivered))
    assert report is not None and json.loads(report) == total.document()
    assert list(json.loads(report)) == list(total.document())


@pytest.mark.parametrize(
    "more",
    [
        {"errors": [EventError("x", "is odd")]},
        {"warning_count": 1, "warnings": [EventError("x", "is odd")]},
        {"deliveries": Delivered(rejected=1, rejected_subscribers=("desk",))},
    ],
)
def test_there_is_no_short_report_if_there_is_more_to_tell(more: dict[str, Any]) -> None:
    assert report_of_one(result(**more)) is None
