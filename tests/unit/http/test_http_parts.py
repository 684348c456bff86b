"""Parts of the HTTP interface without a server: tokens, portions of a body, what is kept, how errors look."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from actors.http.encoding import MSGPACK, decoded, encoded
from actors.http.problems import HttpError, problem_of
from actors.http.recent_events import RecentEvents, backtest
from actors.http.requests import Request
from actors.http.routes.publishing import portions_of
from actors.http.settings import HttpSettings
from actors.http.state_file import StateFile
from actors.http.tokens import Client, Tokens, token_hash
from ray_pubsub.errors import OverloadedError, SettingError, StoreError
from tests.house.test_public_names import EXAMPLES


def request_of(*chunks: bytes, limit: int = 1000) -> Request:
    waiting = list(chunks)

    async def receive() -> Any:
        body = waiting.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(waiting)}

    async def send(message: Any) -> None:
        raise AssertionError(message)

    return Request({"headers": [], "query_string": b"", "method": "POST"}, receive, send, limit)


async def portions(body: bytes, chunk: int, longest: int, size: int) -> list[bytes]:
    chunks = [body[start : start + chunk] for start in range(0, len(body), chunk)]
    return [portion async for portion in portions_of(request_of(*chunks), longest, size)]


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
async def test_portions_depend_on_the_body_alone(chunk: int) -> None:
    body = b"".join(b'{"n": %d}\n' % number for number in range(200)) + b'{"last": 1}'
    found = await portions(body, chunk, 20, 100)
    assert b"".join(found) == body
    assert found == await portions(body, 3, 20, 100)
    assert all(portion.endswith(b"\n") for portion in found[:-1])
    assert max(map(len, found)) <= 111


async def test_a_line_that_is_too_long() -> None:
    with pytest.raises(HttpError) as raised:
        await portions(b"x" * 500, 50, 100, 100)
    assert raised.value.status == 413


async def test_a_body_that_is_too_long() -> None:
    assert await request_of(b"ab", b"c", limit=3).body() == b"abc"
    for chunks in ([b"abcd"], [b"ab", b"cd"]):
        with pytest.raises(HttpError):
            await request_of(*chunks, limit=3).body()


def test_scopes() -> None:
    client = Client("c", frozenset({"publish", "subscribe:a", "subscribe:team-*"}))
    assert [client.may(scope) for scope in ("publish", "subscribe", "subscribe:a", "subscribe:team-1")] == [True] * 4
    assert [client.may(scope) for scope in ("read", "admin", "subscribe:b", "subscribe:*", "subscribe:team")] == [
        False
    ] * 5
    assert not Client("c", frozenset({"publish"})).may("subscribe")
    assert Client("c", frozenset({"admin"})).may("subscribe:*")


def test_tokens() -> None:
    tokens = Tokens(
        {"a": {"token": "x" * 16, "scopes": ["read"]}}, {"b": {"hash": token_hash("y"), "scopes": ["admin"]}}
    )
    assert tokens.client("Bearer " + "x" * 16).name == "a"
    assert tokens.client("bearer y").name == "b"
    for bad in (None, "", "Bearer", "Bearer z", "Basic y"):
        with pytest.raises(HttpError):
            tokens.client(bad)
    for wrong in ({"token": "short", "scopes": ["read"]}, {"token": "x" * 16}, {"token": "x" * 16, "scopes": ["root"]}):
        with pytest.raises(SettingError):
            Tokens({"a": wrong}, {})


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_every_error_is_a_document(error: Any) -> None:
    problem = problem_of(error)
    assert problem.document["type"] == f"urn:ray-pubsub:{type(error).__name__}"
    assert problem.document["detail"] == str(error)
    assert 400 <= problem.status < 600
    json.dumps(problem.document)


def test_when_to_try_again() -> None:
    assert (b"retry-after", b"3") in problem_of(OverloadedError("batches", 9, 2.6)).headers
    assert "secret" not in str(problem_of(RuntimeError("secret")).document)


def test_the_state_is_on_disk_and_private(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "new")
    assert file.put("webhooks", "a", {"x": 1}) is False
    assert file.put("webhooks", "a", {"x": 2}) is True
    assert StateFile(tmp_path / "new").part("webhooks") == {"a": {"x": 2}}
    assert file.put("webhooks", "a", None) is True
    assert StateFile(tmp_path / "new").part("webhooks") == {}
    token, path = file.admin_token(lambda: "t")
    assert (token, file.admin_token(lambda: "u")[0], path.stat().st_mode & 0o777) == ("t", "t", 0o600)
    (tmp_path / "new" / "http.json").write_text("[")
    with pytest.raises(StoreError, match="damaged"):
        StateFile(tmp_path / "new")


def test_recent_events_are_bounded() -> None:
    recent = RecentEvents(3)
    recent.add(b'{"n": 0}\n{"n": 1}\n')
    recent.add(b"".join(b'{"n": %d}\n' % number for number in range(2, 10)))
    assert recent.lines() == [b'{"n": 7}', b'{"n": 8}', b'{"n": 9}']
    found = backtest("n > 7", [*recent.lines(), b"nonsense"])
    assert (found.events, found.bad, found.matches, found.samples) == (4, 1, 2, [b'{"n": 9}', b'{"n": 8}'])
    nothing = RecentEvents(0)
    nothing.add(b"{}")
    assert len(nothing) == 0


def test_what_json_lacks() -> None:
    assert encoded({"x": float("inf"), "y": [float("nan"), 1.5]}, "application/json") == b'{"x":null,"y":[null,1.5]}'
    assert decoded(encoded({"x": 1}, MSGPACK), MSGPACK) == {"x": 1}
    with pytest.raises(HttpError):
        decoded(b"\x91" * 2000 + b"\x01", MSGPACK)
    with pytest.raises(HttpError):
        decoded(b"[" * 100_000, "application/json")


def test_settings() -> None:
    for wrong in ({"port": -1}, {"allow_networks": ("x",)}, {"certificate": "c"}, {"settle": 0}):
        with pytest.raises(SettingError):
            HttpSettings(**wrong)
    assert asyncio.iscoroutinefunction(portions_of) is False
