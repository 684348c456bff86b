"""Decisions about webhooks, without a network: signatures, addresses, pauses, circuit breaking."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import ip_address
from typing import Any

import pytest

from actors.http.webhooks.breaker import Breaker
from actors.http.webhooks.sending import send
from actors.http.webhooks.signing import check_secret, new_secret
from actors.http.webhooks.target_address import RefusedAddressError, Target, is_allowed, resolved, target_of
from actors.http.webhooks.webhook import webhook_of
from actors.http.webhooks.worker import retry_delay
from ray_pubsub.errors import SettingError


def test_secrets() -> None:
    assert check_secret(new_secret()) != new_secret()
    for bad in (None, "", "whsec_", "whsec_!!!!", "whsec_YWJj", "x" + new_secret()):
        with pytest.raises(SettingError):
            check_secret(bad)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1", "255.255.255.255"),
        *("::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1"),
        *("2002:a00:1::", "::10.0.0.1", "fec0::1", "168.63.129.16"),
    ],
)  # fmt: skip
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_allowed(ip_address(address), [])
    assert not is_allowed(ip_address(address), ["203.0.113.0/24"])


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8"])
def test_addresses_that_are_public(address: str) -> None:
    assert is_allowed(ip_address(address), [])


def test_the_address_that_was_checked_is_the_one_that_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name whose second lookup gives a private address: there is no second lookup."""
    lookups: list[str] = []

    async def getaddrinfo(self: Any, host: str, port: int, **more: Any) -> list[Any]:
        lookups.append(host)
        address = "203.0.113.7" if len(lookups) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    connected: list[Any] = []

    async def open_connection(host: str, port: int, **more: Any) -> Any:
        connected.append((host, port, more["server_hostname"]))
        raise ConnectionRefusedError("nobody is there")

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(asyncio, "open_connection", open_connection)
    answer = asyncio.run(send(target_of("https://rebinding.example/x"), {}, b"{}", ["203.0.113.0/24"], 5.0))
    assert (answer.status, answer.reason) == (0, "nobody is there")
    assert (lookups, connected) == (["rebinding.example"], [("203.0.113.7", 443, "rebinding.example")])


def test_a_name_with_private_addresses_only_is_refused() -> None:
    with pytest.raises(RefusedAddressError, match="localhost has no public address"):
        asyncio.run(resolved(target_of("http://localhost:9/"), []))


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "017700000001", "127.1", "[::ffff:7f00:1]", "0"])
def test_other_spellings_of_a_private_address_are_refused(host: str) -> None:
    with pytest.raises(OSError, match="has no public address"):
        asyncio.run(resolved(target_of(f"http://{host}/"), []))


async def test_early_hints_are_not_the_answer() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    answer = await send(target_of(f"http://127.0.0.1:{port}/"), {}, b"{}", ["127.0.0.1/32"], 60.0)
    listening.close()
    assert (answer.status, answer.accepted) == (204, True)


def test_targets() -> None:
    assert target_of("https://Example.com/a?b=c#d") == Target("https", "example.com", 443, "/a?b=c")
    assert target_of("http://[2001:db8::1]:81").authority == "[2001:db8::1]:81"
    assert target_of("http://x:80/").authority == "x"
    for bad in ("x", "file:///etc/passwd", "http://a\r\nb/", "http://u@h/", "http://h:99999/", "http://é/", None):
        with pytest.raises(SettingError):
            target_of(bad)


def test_a_webhook_keeps_its_secret() -> None:
    first = webhook_of("w", {"subscriber": "s", "url": "http://x/"})
    second = webhook_of("w", {"subscriber": "s", "url": "http://y/"}, first)
    assert first.secret == second.secret
    assert "secret" not in first.shown()
    assert webhook_of("w", first.state()) == first
    assert webhook_of("w", {**first.state(), "data": True}).data and not first.data
    with pytest.raises(SettingError, match="color"):
        webhook_of("w", {"subscriber": "s", "url": "http://x/", "color": "red"})


def test_the_breaker() -> None:
    breaker = Breaker(threshold=3, pause=10.0, longest=30.0)
    for now in (0.0, 1.0):
        breaker.failed(now)
    assert breaker.most(1.0, 4) == 4
    breaker.failed(2.0)
    assert (breaker.state(2.0), breaker.most(11.9, 4)) == ("open", 0)
    assert (breaker.state(12.0), breaker.most(12.0, 4)) == ("half-open", 1)
    breaker.failed(12.0)  # twice as long now
    assert (breaker.state(31.9), breaker.state(32.0)) == ("open", "half-open")
    breaker.failed(32.0)  # and at most 30
    assert (breaker.state(61.9), breaker.state(62.0)) == ("open", "half-open")
    breaker.succeeded()
    assert (breaker.state(62.0), breaker.failures) == ("closed", 0)


def test_pauses_double_up_to_an_hour_and_are_spread() -> None:
    pauses = [retry_delay(attempt, 5.0, sequence) for sequence in range(50) for attempt in (1, 2, 11, 40)]
    assert all(
        0.8 * least <= pause <= 1.2 * least
        for pause, least in zip(pauses, [5.0, 10.0, 3600.0, 3600.0] * 50, strict=True)
    )
    assert len(set(pauses)) == len(pauses)
    assert retry_delay(3, 5.0, 7) == retry_delay(3, 5.0, 7)
