"""Both ends of a socket in one process, for tests: a server that echoes, and a pool that connects at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from actors.transport.frames import MATCH, REPLY, Frame, packed, unpacked
from actors.transport.sockets.client_pool import ClientPool, PendingRequest
from actors.transport.sockets.connection import SocketAddress
from actors.transport.sockets.unix_server import UnixServer

__all__ = ["TIMEOUT", "Finding", "answer", "ask", "content", "frame", "pooled", "reply_of", "serving"]

TIMEOUT = 60.0


def frame(*question: Any, columns: tuple[Any, ...] = ()) -> Frame:
    return Frame(MATCH, packed(question), columns)


def reply_of(answered: Callable[..., Any]) -> Callable[[Frame], Frame]:
    """A server's handler: the fields of the request are the arguments, what is returned is the only field of the reply."""
    return lambda request: Frame(REPLY, packed([answered(*unpacked(request.header))]))


def echo(*question: Any) -> Any:
    return list(question)


@contextmanager
def serving(
    answered: Callable[..., Any] = echo, node: str = "here", role: str = "shard-0", **more: Any
) -> Iterator[UnixServer]:
    found = UnixServer(reply_of(answered), node, role, **more)
    try:
        yield found
    finally:
        found.close()


class Finding:
    """Where each shard is at the moment; counts the questions."""

    def __init__(self, *addresses: SocketAddress | None) -> None:
        self.addresses = list(addresses)
        self.asked = 0

    def __call__(self, shard: int) -> SocketAddress | None:
        self.asked += 1
        return self.addresses[shard]


@contextmanager
def pooled(find: Callable[[int], SocketAddress | None], most: int = 8, **more: Any) -> Iterator[ClientPool]:
    """Connections are made at once, and failures are forgotten at once, unless `more` says otherwise."""
    options: dict[str, Any] = {"run_in_background": lambda task: task(), "patience": TIMEOUT, "pause": 0.0, **more}
    found = ClientPool("shard", find, "here", most, **options)
    try:
        yield found
    finally:
        found.close()


def ask(pool: ClientPool, *question: Any, shard: int = 0) -> PendingRequest | None:
    return pool.send(shard, lambda: frame(*question))


def content(pending: PendingRequest | None, timeout: float = TIMEOUT) -> Any:
    """The only field of the reply; None if there is no reply."""
    return None if pending is None else pending.reply(timeout, lambda found: unpacked(found.header)[0])


def answer(pool: ClientPool, *question: Any, shard: int = 0, timeout: float = TIMEOUT) -> Any:
    return content(ask(pool, *question, shard=shard), timeout)
