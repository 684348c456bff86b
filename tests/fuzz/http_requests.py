"""Requests to the HTTP interface with strange paths, queries, headers and bodies: each has one answer, none is an internal error, and
nobody without a token gets further than the paths that need none."""

from __future__ import annotations

import asyncio
import json
import random
import re
import tempfile
from functools import cache
from typing import Any
from urllib.parse import unquote

import msgpack

from actors.http.application import Application
from actors.http.problems import HttpError
from actors.http.route import RouteTable
from actors.http.routes.table import ROUTES
from actors.http.settings import HttpSettings
from tests.fuzz.inputs import changed_bytes

__all__ = ["strange_requests"]

TOKENS: dict[str, dict[str, Any]] = {
    "p" * 16: {"scopes": ["publish"]},
    "s" * 16: {"scopes": ["subscribe:a", "subscribe:team-*"]},
    "a" * 16: {"scopes": ["admin"]},
}
VARIABLE = re.compile(r"\{[^}]*\}")
SEGMENTS = ["a", "%00", "..", "a%2Fb", "x" * 300, "%ff", "1", "ä", "-", "team-1", "*"]
METHODS = ["GET", "POST", "DELETE", "HEAD", "PUT", "PATCH", "OPTIONS", "\0"]
VALUES: list[Any] = [
    *[None, True, 0, -1, 2**63, 1e308, float("nan"), "", "x", "\0", "a" * 5000, [], {}, [[]], {"a": 1}, "price > 5", ["a"] * 100],
    *[{"subscriber": "a"}, "https://example.com/", "http://10.0.0.1/", "subscribe:*", "admin", [1, 2], [[1, 2]], "p" * 16],
]  # fmt: skip
FIELDS = [
    *["id", "subscriber", "expression", "events", "subscriptions", "url", "name", "scopes", "token", "receipts", "data", "tags", "limit"],
    *["level", "rules", "expressions", "ids", "secret", "reason", "delay", "specversion", "source", "type", "event"],
]  # fmt: skip
KINDS = [
    *["application/json", "application/msgpack", "application/x-msgpack", "application/x-ndjson", "text/plain"],
    *["application/cloudevents+json", "application/cloudevents-batch+json", "application/json; charset=x", "\xff", ""],
]
HEADERS = [
    *["last-event-id", "idempotency-key", "ce-id", "ce-type", "ce-specversion", "ce-source", "content-length", "origin"],
    *["content-encoding", "accept", "host", "if-none-match"],
]  # fmt: skip
TEXTS = [
    "",
    "x",
    "\xff\xfe",
    "1.0",
    "-1",
    "9" * 400,
    "a,b",
    "gzip",
    "text/event-stream",
    "application/msgpack",
    "[",
    "0-0",
]
PARAMETERS = [name for route in ROUTES for name, *_ in route.query]
ARGUMENTS = ["", "1", "-1", "nan", "inf", "9" * 400, "%00", "true", "x", "%ff", "1e400", "a" * 3000, "a"]


@cache
def interface() -> Application:
    """One that is connected to no server: what reaches the server is answered with 503."""
    tokens = {f"client-{number}": {"token": token, **given} for number, (token, given) in enumerate(TOKENS.items())}
    return Application(HttpSettings(state_dir=tempfile.mkdtemp(), tokens=tokens, max_body=50_000))


def strange_requests(seed: int, count: int) -> None:
    """Sends this number of requests."""
    chance, table = random.Random(f"requests {seed}"), RouteTable(ROUTES)

    async def send() -> None:
        for _ in range(count):
            scope, body = _request(chance)
            statuses = await _answers(scope, body, chance)
            assert len(statuses) == 1, (scope, body, statuses)
            assert statuses[0] == 503 or statuses[0] < 500, (scope, body, statuses)
            try:
                route, _ = table.find(scope)
            except HttpError:
                assert statuses[0] in (404, 405), (scope, statuses)
                continue
            authorization = dict(scope["headers"]).get(b"authorization", b"").decode()
            kind, _, token = authorization.partition(" ")
            given = TOKENS.get(token) if kind == "Bearer" else None
            if route.scope is not None and given is None:
                assert statuses[0] == 401, (scope, statuses)
            if route.scope in ("admin", "read") and given is not None and "admin" not in given["scopes"]:
                assert statuses[0] == 403, (scope, statuses)

    asyncio.run(send())


async def _answers(scope: dict[str, Any], body: bytes, chance: random.Random) -> list[int]:
    place = chance.randrange(len(body) + 1)
    parts = [body[:place], body[place:]] if chance.random() < 0.3 else [body]
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        if not parts:
            return {"type": "http.disconnect"}
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await asyncio.wait_for(interface()(scope, receive, send), 60)
    return statuses


def _request(chance: random.Random) -> tuple[dict[str, Any], bytes]:
    route = chance.choice(ROUTES)
    path = VARIABLE.sub(lambda _: chance.choice(SEGMENTS), route.path)
    if chance.random() < 0.05:
        path += chance.choice(["/", "//", "%", "\0", "/.."])
    query = "&".join(f"{chance.choice(PARAMETERS)}={chance.choice(ARGUMENTS)}" for _ in range(chance.randrange(4)))
    headers = {"content-type": chance.choice(KINDS[:4] if chance.random() < 0.7 else KINDS)}
    headers.update({chance.choice(HEADERS): chance.choice(TEXTS) for _ in range(chance.randrange(3))})
    if chance.random() < 0.8:
        token = chance.choice([*TOKENS, "a" * 16, "a" * 16])
        headers["authorization"] = chance.choice(["Bearer ", "Bearer ", "Bearer ", "Basic ", "Bearer", ""]) + token
    scope = {
        "type": "http", "method": route.method if chance.random() < 0.8 else chance.choice(METHODS), "path": unquote(path),
        "raw_path": path.encode("latin-1", "replace"), "query_string": query.encode("latin-1", "replace"), "http_version": "1.1",
        "scheme": "http", "root_path": "", "client": ("127.0.0.1", 1),
        "headers": [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()],
    }  # fmt: skip
    return scope, _body(chance)


def _body(chance: random.Random) -> bytes:
    if chance.random() < 0.1:
        return chance.randbytes(chance.randrange(60))
    found: Any = {chance.choice(FIELDS): chance.choice(VALUES) for _ in range(chance.randrange(6))}
    if chance.random() < 0.2:
        found = [found] * chance.randrange(3)
    packed = bytes(msgpack.packb(found)) if chance.random() < 0.2 else json.dumps(found).encode()
    if chance.random() < 0.2:
        packed = changed_bytes(chance, packed) if packed else packed
    return b"\n".join([packed] * chance.choice([1, 1, 1, 3]))
