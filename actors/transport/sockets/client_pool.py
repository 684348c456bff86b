"""Pools of connections to the sockets of other actors on this node: from a coordinator to shards, from a publisher to coordinators.

A pool serves the normal case only: if a request gets no reply, the caller falls back to Ray, where restarts, crashes and replaced instances
are distinguished. No request waits for a connection: connections are made in the background, and meanwhile requests go through Ray.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from actors.transport.frames import NO_REPLY, Frame, decoded
from actors.transport.sockets.connection import LARGEST_REQUEST, MOST_COLUMNS, Connection, SocketAddress

__all__ = ["PATIENCE", "ClientPool", "PendingRequest"]

logger = logging.getLogger(__name__)
Reply = TypeVar("Reply")

PATIENCE = 1.0
"""The seconds to wait for the reply to a small request. After that the caller falls back to Ray."""
PAUSE = 0.5
"""The seconds without new connections to an actor after one has failed."""
FAR_PAUSE = 10.0
"""The same for an actor that is on another node, or has no socket."""


_forks = 0
"""How often this process, or one that it was forked from, was made by a fork. A call of the system for each request takes longer."""


def _forked() -> None:
    global _forks  # noqa: PLW0603 - it is the process that was forked
    _forks += 1


os.register_at_fork(after_in_child=_forked)


class Pooled(NamedTuple):
    """A connection, with the actor that it leads to."""

    number: int
    address: SocketAddress
    connection: Connection


@dataclass(slots=True, eq=False)
class Peer:
    """The state of the connections to one actor."""

    address: SocketAddress | None = None
    idle: list[Pooled] = field(default_factory=list)
    connections: int = 0
    """The number of connections, idle or in use."""
    connecting: bool = False
    not_before: float = 0.0


class ClientPool:
    """Connections to the numbered actors of one `role`, at most `most` to each. Safe to use from several threads. `find` asks an actor for
    its address, through Ray; it may take long, and may raise anything.

    `run_in_background` is called with work that must not block the caller. A forked process does not use the pool's connections, because it
    would read its parent's replies.
    """

    def __init__(
        self,
        role: str,
        find: Callable[[int], SocketAddress | None],
        node: str,
        most: int,
        run_in_background: Callable[[Callable[[], None]], None] | None = None,
        patience: float = PATIENCE,
        pause: float = PAUSE,
    ) -> None:
        self.role = role
        self._find, self._node, self._most = find, node, most
        self._run_in_background = _in_a_thread if run_in_background is None else run_in_background
        self.patience, self._pause = patience, pause
        # The lock is reentrant because the garbage collector may close a pending request while this thread holds it.
        self._lock = threading.RLock()
        self._forks = _forks
        self._peers: dict[int, Peer] = {}
        self._closed = False
        self.answered = 0
        """The number of requests that were answered over a socket."""

    def send(self, number: int, request: Callable[[], Frame], patience: float | None = None) -> PendingRequest | None:
        """Sends a request. Returns None if there is no connection to this actor (yet), or if no frame can carry the request. `patience`
        is the number of seconds to wait for the reply, in place of the pool's."""
        pooled = self._take(number)
        if pooled is None:
            return None
        pending = PendingRequest(self, pooled, time.monotonic() + (self.patience if patience is None else patience))
        try:
            try:
                frame = request()
            except Exception as error:  # Ray carries what msgpack and Arrow cannot
                logger.info("a request to %s %d does not fit a frame: %r", self.role, number, error)
                frame = None
            if frame is None or ((frame.columns or len(frame.header) > LARGEST_REQUEST) and not _fits(frame)):
                pending.unsent()
                return None
            pooled.connection.send(frame)
        except OSError as error:
            pending.fail(error)
            return None
        except BaseException:  # the thread was interrupted
            pending.cancel()
            raise
        return pending

    def forget(self, number: int) -> None:
        """Drops the known address of an actor and the connections to it. After a pause the actor is asked for its address again."""
        with self._lock:
            peer = self._peer(number)
            peer.address, peer.not_before = None, time.monotonic() + self._pause
            idle, peer.idle = peer.idle, []
            peer.connections -= len(idle)
        for pooled in idle:
            pooled.connection.close()

    def close(self) -> None:
        if not self.own():
            return  # in a forked process another thread may hold the lock for ever
        with self._lock:
            self._closed = True
            peers = list(self._peers)
        for number in peers:
            self.forget(number)

    def own(self) -> bool:
        """Returns whether this process has made the pool."""
        return self._forks == _forks

    def _peer(self, number: int) -> Peer:
        found = self._peers.get(number)
        if found is None:
            found = self._peers[number] = Peer()
        return found

    def _take(self, number: int) -> Pooled | None:
        """Takes the connection that was used last, because the others may have been closed meanwhile. If there is none, one is made in
        the background for later requests."""
        if self._forks != _forks:
            return None
        with self._lock:
            peer = self._peers.get(number) or self._peer(number)
            if peer.idle:
                return peer.idle.pop()
            if self._closed or peer.connecting or peer.connections >= self._most or time.monotonic() < peer.not_before:
                return None
            peer.connecting = True
        try:
            self._run_in_background(lambda: self._connect(number, peer))
        except RuntimeError:  # no more threads can be started
            peer.connecting = False
        return None

    def _connect(self, number: int, peer: Peer) -> None:
        pause = self._pause
        try:
            address = peer.address or self._find(number)
            if address is None or address.node != self._node:
                pause = FAR_PAUSE
                return
            expected = f"{self.role}-{number}"
            pooled = Pooled(number, address, Connection.to(address._replace(role=expected), self.patience))
            with self._lock:
                if not self._closed:
                    peer.address, pause = address, 0.0
                    peer.connections += 1
                    peer.idle.append(pooled)
                    return
            pooled.connection.close()
        except Exception as error:
            peer.address = None
            logger.info("no connection to %s %d: %r", self.role, number, error)
        finally:
            peer.not_before = max(peer.not_before, time.monotonic() + pause) if pause else 0.0
            peer.connecting = False

    def _give_back(self, pooled: Pooled, answered: bool) -> None:
        with self._lock:
            self.answered += answered
            peer = self._peers[pooled.number]
            if peer.address is pooled.address and not self._closed:
                peer.idle.append(pooled)
                return
            peer.connections -= 1
        pooled.connection.close()

    def _drop(self, pooled: Pooled) -> bool:
        """Closes a connection. Returns whether it led to the actor's current address."""
        with self._lock:
            peer = self._peer(pooled.number)
            peer.connections -= 1
            current = peer.address is pooled.address
        pooled.connection.close()
        return current

    def _failed(self, pooled: Pooled, error: object) -> None:
        logger.info("a connection to %s %d failed: %r", self.role, pooled.number, error)
        if self._drop(pooled):
            self.forget(pooled.number)


class PendingRequest:
    """A request that was sent. One of these methods must end it, because the connection can be used again only after its reply."""

    def __init__(self, pool: ClientPool, pooled: Pooled, until: float) -> None:
        self._pool, self._until = pool, until
        self._pooled: Pooled | None = pooled

    def reply(self, timeout: float, read: Callable[[Frame], Reply]) -> Reply | None:
        """Returns what `read` makes of the reply, or None if the reply does not come within `timeout` seconds and the pool's patience,
        or is not valid."""
        pooled = self._pooled
        if pooled is None or self._pool._forks != _forks:
            return None
        try:
            left = self._until - time.monotonic()
            frame = pooled.connection.receive(timeout if timeout < left else left)
            if frame.kind == NO_REPLY:
                self.fail("the request was not answered")
                return None
            found = decoded(read, frame)
        except (OSError, EOFError, MemoryError) as error:
            self.fail(error)
            return None
        except BaseException:  # the thread was interrupted
            self.cancel()
            raise
        self._pooled = None
        self._pool._give_back(pooled, answered=True)
        return found

    def until_readable(self, timeout: float) -> asyncio.Future[None] | None:
        """Returns what is done when the reply has begun, or the connection has ended, or neither within `timeout` seconds and the pool's
        patience. Returns None if there is nothing to wait for."""
        pooled = self._pooled
        if pooled is None or self._pool._forks != _forks:
            return None
        left = self._until - time.monotonic()
        return pooled.connection.until_readable(timeout if timeout < left else left)

    def unsent(self) -> None:
        """Ends the request when nothing was sent; the connection can be used again."""
        pooled, self._pooled = self._pooled, None
        if pooled is not None:
            self._pool._give_back(pooled, answered=False)

    def cancel(self) -> None:
        """Ends the request because the reply is not wanted any more. Does nothing if it has come."""
        pooled, self._pooled = self._pooled, None
        if pooled is not None:
            self._pool._drop(pooled)

    def fail(self, reason: object) -> None:
        """Ends the request like `cancel`, and also drops the other connections to this actor, which are not trusted either."""
        pooled, self._pooled = self._pooled, None
        if pooled is not None:
            self._pool._failed(pooled, reason)


def _fits(frame: Frame) -> bool:
    return frame.nbytes <= LARGEST_REQUEST and len(frame.columns) <= MOST_COLUMNS


def _in_a_thread(task: Callable[[], None]) -> None:
    threading.Thread(target=task, name="unix-connect", daemon=True).start()
