"""Parts of the HTTP interface without a server: tokens, portions of a body, what is kept, how errors look."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from actors.http import requests, state_file
from actors.http.application import Application
from actors.http.encoding import MSGPACK, decoded, encoded
from actors.http.json_array import documents_of_array
from actors.http.known_subscribers import KnownSubscribers
from actors.http.problems import HttpError, problem_of
from actors.http.recent_events import RecentEvents, backtest
from actors.http.requests import Request
from actors.http.routes.cloud_events import idempotency_key_of
from actors.http.routes.publishing import keyed, portions_of
from actors.http.same_origin import check_same_origin
from actors.http.settings import HttpSettings
from actors.http.state_file import StateFile
from actors.http.streams.event_stream import EventStreams, StreamOptions
from actors.http.streams.wakeups import Wakeups
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
    assert [name for name in problem.document if name.startswith("_")] == []


def test_when_to_try_again() -> None:
    assert (b"retry-after", b"3") in problem_of(OverloadedError("batches", 9, 2.6)).headers
    assert "secret" not in str(problem_of(RuntimeError("secret")).document)


def test_the_state_is_on_disk_and_private(tmp_path: Path) -> None:
    with closing(StateFile(tmp_path / "new")) as file:
        assert file.put("webhooks", "a", {"x": 1}) is False
        assert file.put("webhooks", "a", {"x": 2}) is True
    with closing(StateFile(tmp_path / "new")) as file:
        assert file.part("webhooks") == {"a": {"x": 2}}
        assert file.put("webhooks", "a", None) is True
    with closing(StateFile(tmp_path / "new")) as file:
        assert file.part("webhooks") == {}
        token, path = file.admin_token(lambda: "t" * 16)
        assert (token, file.admin_token(lambda: "u")[0], path.stat().st_mode & 0o777) == ("t" * 16, "t" * 16, 0o600)
    (tmp_path / "new" / "http.json").write_text("[")
    with pytest.raises(StoreError, match="damaged"):
        StateFile(tmp_path / "new")


def test_the_state_has_one_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two would overwrite each other's file, and a token that one has revoked would come back."""
    monkeypatch.setattr(state_file, "LOCK_PATIENCE", 0.05)
    first = StateFile(tmp_path)
    with pytest.raises(StoreError, match="in use by another HTTP interface"):
        StateFile(tmp_path)
    first.close()
    StateFile(tmp_path).close()


def test_state_that_has_changed_on_the_disk_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "http.json"
    with closing(StateFile(tmp_path)) as file:
        file.put("tokens", "ann", {"hash": token_hash("x"), "scopes": ["subscribe:ann"]})
    good = path.read_text()
    path.write_text(good.replace("subscribe:ann", "subscribe:bnn"))
    with pytest.raises(StoreError, match="is damaged: it is not what was written"):
        StateFile(tmp_path)
    content = json.loads(good)
    del content["checksum"]  # as an earlier release wrote it, or a person who has changed it
    path.write_text(json.dumps(content))
    with closing(StateFile(tmp_path)) as file:
        assert list(file.part("tokens")) == ["ann"]


def test_state_with_one_wrong_bit_is_exact_or_refused(tmp_path: Path) -> None:
    """Every bit of both files. A token with a wrong bit is another token, which nobody has but who reads the file."""
    with closing(StateFile(tmp_path)) as file:
        file.put("tokens", "ann", {"hash": "0f", "scopes": ["subscribe:ann"]})
        file.put("webhooks", "w", {"url": "https://a"})
        token, path = file.admin_token(lambda: "t" * 16)
        expected = [file.part("tokens"), file.part("webhooks")]
    good = (tmp_path / "http.json").read_bytes()
    refused = 0
    for content in flipped(good):
        (tmp_path / "http.json").write_bytes(content)
        try:
            with closing(StateFile(tmp_path)) as file:
                assert [file.part("tokens"), file.part("webhooks")] == expected
        except StoreError:
            refused += 1
    assert refused > 7 * len(good)
    (tmp_path / "http.json").write_bytes(good)
    with closing(StateFile(tmp_path)) as file:
        for content in flipped(f"{token}\n".encode()):
            path.write_bytes(content)
            try:
                assert file.admin_token(lambda: "never")[0] == content.decode().strip()
            except StoreError as error:
                assert "remove it" in str(error)


def flipped(content: bytes) -> Iterator[bytes]:
    """The content with each of its bits wrong."""
    for place in range(8 * len(content)):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        yield bytes(changed)


def test_an_empty_token_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / "admin-token").write_text("\n")  # a full disk has left it so
    with closing(StateFile(tmp_path)) as file:
        assert file.admin_token(lambda: "t" * 16)[0] == "t" * 16
        (tmp_path / "admin-token").write_text("short")
        with pytest.raises(StoreError, match="fewer than 16 characters"):
            file.admin_token(lambda: "t" * 16)
    tokens = Tokens({}, {})
    tokens.add("admin", token_hash(""), ["admin"])
    for empty in ("Bearer", "Bearer ", "bearer   "):
        with pytest.raises(HttpError, match="unknown"):
            tokens.client(empty)


def test_a_revoked_token_is_noticed_by_requests_that_wait() -> None:
    tokens = Tokens({"a": {"token": "x" * 16, "scopes": ["read"]}}, {})
    client = tokens.client("Bearer " + "x" * 16)
    tokens.check_valid(client)
    tokens.add("a", token_hash("y" * 16), ["read"])
    with pytest.raises(HttpError, match="revoked"):
        tokens.check_valid(client)


@pytest.mark.parametrize(
    ("host", "origin", "allowed", "good"),
    [
        ("127.0.0.1:8480", None, (), True),
        ("[::1]:8480", "http://[::1]:8480", (), True),
        ("localhost:8480", "http://localhost:8480", (), True),
        ("10.0.0.7", None, (), True),
        (None, None, (), True),  # HTTP/1.0, which no browser speaks
        ("evil.example:8480", None, (), False),  # DNS rebinding
        ("evil.example:8480", "http://evil.example:8480", (), False),
        ("127.0.0.1:8480", "http://evil.example", (), False),
        ("127.0.0.1:8480", "http://127.0.0.1:3000", (), False),
        ("127.0.0.1:8480", "null", (), False),
        ("127.0.0.1:8480", "http://[", (), False),
        ("desk.example", "https://desk.example", ("desk.example",), True),
        ("127.0.0.1:8480", "https://desk.example", ("desk.example",), True),
        ("other.example", None, ("desk.example",), False),
    ],
)
def test_pages_of_others_do_not_use_an_open_interface(
    host: str | None, origin: str | None, allowed: tuple[str, ...], good: bool
) -> None:
    if good:
        check_same_origin(host, origin, allowed)
        return
    with pytest.raises(HttpError) as raised:
        check_same_origin(host, origin, allowed)
    assert raised.value.status == 403


async def test_an_open_interface_refuses_pages_of_others(tmp_path: Path) -> None:
    app = Application(HttpSettings(state_dir=str(tmp_path), open=True))
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    scope = {
        "type": "http", "method": "POST", "path": "/v1/events", "query_string": b"",
        "headers": [(b"host", b"127.0.0.1:8480"), (b"origin", b"http://evil.example")],
    }  # fmt: skip
    await app(scope, receive, send)
    assert sent[0]["status"] == 403
    await app({**scope, "headers": [(b"host", b"evil.example")]}, receive, send)
    assert sent[2]["status"] == 403
    await app({**scope, "headers": [(b"host", b"127.0.0.1:8480")]}, receive, send)
    assert sent[4]["status"] not in (401, 403)
    # A picture of another page, whose address is a stream: a browser sends no Origin with it.
    picture = {**scope, "method": "GET", "path": "/v1/subscribers/ann/stream"}
    for site, status in ((b"cross-site", 403), (b"same-site", 403), (b"same-origin", 503), (b"none", 503)):
        await app({**picture, "headers": [(b"host", b"127.0.0.1:8480"), (b"sec-fetch-site", site)]}, receive, send)
        assert sent[-2]["status"] == status, site
    # A link to the console is followed.
    await app(
        {
            **scope,
            "method": "GET",
            "path": "/",
            "headers": [(b"host", b"localhost"), (b"sec-fetch-site", b"cross-site")],
        },
        receive,
        send,
    )
    assert sent[-2]["status"] == 200
    app.file.close()


class Quiet:
    """A backend without deliveries."""

    async def poll(self, *_: object) -> list[Any]:
        return []

    async def ask(self, *_: object, timeout: float) -> Any:
        return True, ()


async def test_the_streams_of_a_revoked_token_end() -> None:
    backend: Any = Quiet()
    streams = EventStreams(backend, Wakeups(backend), KnownSubscribers(backend), 1.0, 10.0)
    sent: dict[str, list[Any]] = {"ann": [], "bob": []}
    tasks = {}
    for name, messages in sent.items():
        request = request_of(b"")
        request.client = Client(name, frozenset({f"subscribe:{name}"}))

        async def send(message: Any, messages: list[Any] = messages) -> None:
            messages.append(message)

        async def receive() -> Any:
            await asyncio.Event().wait()

        request.send, request._receive = send, receive
        tasks[name] = asyncio.create_task(streams.serve(request, name, StreamOptions(False, 10), None))
    while len(streams) < 2:
        await asyncio.sleep(0)
    streams.end_client("ann")
    await asyncio.wait_for(tasks["ann"], 30)
    assert sent["ann"][-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    assert (len(streams), tasks["bob"].done()) == (1, False)
    tasks["bob"].cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)
    assert len(streams) == 0


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


@pytest.mark.parametrize(
    ("body", "documents"),
    [
        (b"[]", []),
        (b" [ ] \n", []),
        (b'[{"a": 1.50}, 7 ,\n[null]]', [b'{"a": 1.50}', b"7", b"[null]"]),
        ('[{"é": "]"},\r\n{"a":\n1e999, "b": NaN}]'.encode(), ['{"é": "]"}'.encode(), b'{"a": 1e999, "b": NaN}']),
    ],
)
def test_an_array_is_cut_into_the_documents_as_they_came(body: bytes, documents: list[bytes]) -> None:
    assert documents_of_array(body) == documents


@pytest.mark.parametrize(
    "body", [b"", b"[", b"[1", b"[1,", b"[1,]", b"[,]", b"[1 2]", b"[1]x", b"[1}", b"[\xe9]", b"[" * 100_000]
)
def test_an_array_that_is_none(body: bytes) -> None:
    with pytest.raises(HttpError) as raised:
        documents_of_array(body)
    assert raised.value.status == 400


def test_half_of_a_surrogate_pair_leaves_as_an_escape() -> None:
    assert encoded({"x": "a\ud800é"}, "application/json") == b'{"x":"a\\ud800\\u00e9"}'
    assert decoded(encoded({"x": "a\ud800"}, MSGPACK), MSGPACK) == {"x": "a?"}


def test_keys_of_portions_collide_with_no_other() -> None:
    """The second portion under the key "k" is not what another request calls "k#1", nor another client's."""
    seen = set()
    for client, key, portion in (
        ("a", "k", 0),
        ("a", "k", 1),
        ("a", "k#1", 0),
        ("a", "1:k", 0),
        ("a.1", "k", 0),
        ("ce", "k", 0),
    ):
        request = request_of(b"")
        request.client = Client(client, frozenset())
        request.headers = {b"idempotency-key": key.encode()}
        seen.add(keyed(request, portion))
    assert len(seen) == 6
    assert idempotency_key_of("s", "1").partition(":")[0] not in {key.partition(":")[0] for key in seen if key}


async def test_a_body_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "WHOLE_BODY", 0.01)
    request = request_of(b"")

    async def receive() -> Any:
        await asyncio.Event().wait()

    request._receive = receive
    with pytest.raises(HttpError) as raised:
        await request.body()
    assert raised.value.status == 408


async def test_a_body_comes_in_parts_at_once_or_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "WHOLE_BODY", 30.0)
    for waits in ((), (0,), (1,), (0, 1, 2)):
        request, parts = request_of(b""), [b"one", b"two", b"three"]

        async def receive(waits: Any = waits, parts: list[bytes] = parts) -> Any:
            if 3 - len(parts) in waits:
                await asyncio.sleep(0)
            part = parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(parts)}

        request._receive = receive
        assert await request.body() == b"onetwothree"


async def test_a_body_of_which_only_the_beginning_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "WHOLE_BODY", 0.01)
    request, begun = request_of(b""), [b"one"]

    async def receive() -> Any:
        if not begun:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": begun.pop(), "more_body": True}

    request._receive = receive
    with pytest.raises(HttpError) as raised:
        await request.body()
    assert raised.value.status == 408


async def test_a_body_that_is_compressed_is_refused() -> None:
    request = request_of(b"\x1f\x8b")
    request.headers = {b"content-encoding": b"gzip"}
    with pytest.raises(HttpError, match="gzip") as raised:
        await request.body()
    assert raised.value.status == 415


def test_settings() -> None:
    for wrong in ({"port": -1}, {"allow_networks": ("x",)}, {"certificate": "c"}, {"settle": 0}):
        with pytest.raises(SettingError):
            HttpSettings(**wrong)
    assert asyncio.iscoroutinefunction(portions_of) is False
