"""Sends one request of a webhook: HTTP/1.1 over a new connection to an address that was checked. Only the status is read."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from actors.http.webhooks.target_address import Target, resolved

__all__ = ["Answer", "send"]

LARGEST_HEAD = 16_384


class Answer(NamedTuple):
    """The answer to a request. A status of 0 means that there was none, and `reason` says why."""

    status: int
    reason: str
    retry_after: float | None = None

    @property
    def accepted(self) -> bool:
        return 200 <= self.status < 300


async def send(
    target: Target, headers: Mapping[str, str], body: bytes, allowed: Iterable[str], timeout: float
) -> Answer:
    """Sends a request. Redirections are not followed, because they would bypass the check of the address."""
    try:
        async with asyncio.timeout(timeout):
            return await _sent(target, headers, body, allowed)
    except TimeoutError:
        return Answer(0, f"no answer within {timeout:g} s")
    except ssl.SSLError as error:
        return Answer(0, f"TLS: {error.reason or error}")
    except (OSError, EOFError, ValueError) as error:
        return Answer(0, str(error) or type(error).__name__)


async def _sent(target: Target, headers: Mapping[str, str], body: bytes, allowed: Iterable[str]) -> Answer:
    host, port = await resolved(target, allowed)
    secure = _trusted() if target.scheme == "https" else None
    named = target.host if secure is not None else None
    reader, writer = await asyncio.open_connection(host, port, ssl=secure, server_hostname=named, limit=LARGEST_HEAD)
    try:
        lines = [f"POST {target.path} HTTP/1.1", f"host: {target.authority}", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += ["connection: close", "", ""]
        writer.write("\r\n".join(lines).encode("latin-1") + body)
        await writer.drain()
        answer = _answer(await reader.readuntil(b"\r\n\r\n"))
        while 100 <= answer.status < 200:  # early hints: the answer is yet to come
            answer = _answer(await reader.readuntil(b"\r\n\r\n"))
        return answer
    except asyncio.LimitOverrunError:
        raise ValueError(f"an answer with more than {LARGEST_HEAD} bytes of headers") from None
    finally:
        writer.close()
        with suppress(OSError, TimeoutError):
            await writer.wait_closed()


@cache
def _trusted() -> ssl.SSLContext:
    """Made once: reading all certificates takes milliseconds, in which no request is answered."""
    return ssl.create_default_context()


def _answer(head: bytes) -> Answer:
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    code = rest[:3]
    if not version.startswith("HTTP/1.") or not code.isdigit():
        raise ValueError("an answer that is not HTTP")
    after = None
    for line in lines:
        name, _, value = line.partition(":")
        if name.lower() == "retry-after" and value.strip().isdigit():
            after = float(value)
    return Answer(int(code), f"HTTP {code}", after)
