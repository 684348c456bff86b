"""Connections to the sockets of other actors on this node: a coordinator's to shards, a publisher's to coordinators.

For as long as all is well: a request gets its reply or none, and without one the caller falls back to Ray, where restarts, crashes and
replaced instances are distinguished. No request waits for a connection: connections are made in the background, while requests go
through Ray.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from actors.transport.connection import LARGEST_REQUEST, MOST_COLUMNS, Connection, SocketAddress
from actors.transport.frames import NO_REPLY, Frame, decoded

__all__ = ["PATIENCE", "ClientPool", "PendingRequest"]

logger = logging.getLogger(__name__)
Reply = TypeVar("Reply")

PATIENCE = 1.0
"""Seconds for the reply to a small request. Later the caller falls back to Ray."""
PAUSE = 0.5
"""Seconds without connections to an actor after one has failed."""
FAR_PAUSE = 10.0
"""The same if the actor is on another node, or has no socket."""


class Pooled(NamedTuple):
    """A connection, and to which actor it leads."""

    number: int
    address: SocketAddress
    connection: Connection


@dataclass(slots=True, eq=False)
class Peer:
    """What is known of one actor."""

    address: SocketAddress | None = None
    idle: list[Pooled] = field(default_factory=list)
    connections: int = 0
    """Idle or in use."""
    connecting: bool = False
    not_before: float = 0.0


class ClientPool:
    """Safe to use from several threads. The actors are of one `role` and have numbers. `find` asks one for its address, through Ray; it may
    take long, and may raise anything. There are at most `most` connections to each.

    `run_in_background` is called with work that must not block the caller. A process that was forked off has no connections: it would
    read replies to its parent.
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
        # Reentrant: the garbage collector may close a pending request while this thread has the lock.
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._peers: dict[int, Peer] = {}
        self._closed = False
        self.answered = 0
        """Requests that were answered over a socket."""

    def send(self, number: int, request: Callable[[], Frame], patience: float | None = None) -> PendingRequest | None:
        """Sends a request. None if there is no connection to this actor (yet), or if no frame can carry the request. `patience`: seconds
        for the reply, instead of the pool's."""
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
            if frame is None or not _fits(frame):
                pending.unsent()
                return None
            pooled.connection.send(frame)
        except OSError as error:
            pending.fail(error)
            return None
        except BaseException:  # it was interrupted
            pending.cancel()
            raise
        return pending

    def forget(self, number: int) -> None:
        """Nothing is sent to the known address of this actor any more. After a pause it is asked for its address again."""
        with self._lock:
            peer = self._peer(number)
            peer.address, peer.not_before = None, time.monotonic() + self._pause
            idle, peer.idle = peer.idle, []
            peer.connections -= len(idle)
        for pooled in idle:
            pooled.connection.close()

    def close(self) -> None:
        if not self.own():
            return  # another process may hold the lock
        with self._lock:
            self._closed = True
            peers = list(self._peers)
        for number in peers:
            self.forget(number)

    def own(self) -> bool:
        """Whether this process has made the pool."""
        return self._process == os.getpid()

    def _peer(self, number: int) -> Peer:
        found = self._peers.get(number)
        if found is None:
            found = self._peers[number] = Peer()
        return found

    def _take(self, number: int) -> Pooled | None:
        """The one used last: the others may have been closed meanwhile. If there is none, one is made for the next time."""
        if not self.own():
            return None
        with self._lock:
            peer = self._peer(number)
            if peer.idle:
                return peer.idle.pop()
            if self._closed or peer.connecting or peer.connections >= self._most or time.monotonic() < peer.not_before:
                return None
            peer.connecting = True
        try:
            self._run_in_background(lambda: self._connect(number, peer))
        except RuntimeError:  # no more threads
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
            peer = self._peer(pooled.number)
            if peer.address is pooled.address and not self._closed:
                peer.idle.append(pooled)
                return
            peer.connections -= 1
        pooled.connection.close()

    def _drop(self, pooled: Pooled) -> bool:
        """Whether it led to the actor's current address."""
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
    """A request that was sent. It must come to an end by one of these methods: the connection is good again only after its reply."""

    def __init__(self, pool: ClientPool, pooled: Pooled, until: float) -> None:
        self._pool, self._until = pool, until
        self._pooled: Pooled | None = pooled

    def reply(self, timeout: float, read: Callable[[Frame], Reply]) -> Reply | None:
        """What `read` makes of the reply, if that comes within `timeout` seconds and the pool's patience, and is valid; else None."""
        pooled = self._pooled
        if pooled is None or not self._pool.own():
            return None
        try:
            frame = pooled.connection.receive(min(timeout, self._until - time.monotonic()))
            if frame.kind == NO_REPLY:
                self.fail("the request was not answered")
                return None
            found = decoded(read, frame)
        except (OSError, EOFError, MemoryError) as error:
            self.fail(error)
            return None
        except BaseException:  # it was interrupted
            self.cancel()
            raise
        self._pooled = None
        self._pool._give_back(pooled, answered=True)
        return found

    def unsent(self) -> None:
        """Nothing was sent."""
        pooled, self._pooled = self._pooled, None
        if pooled is not None:
            self._pool._give_back(pooled, answered=False)

    def cancel(self) -> None:
        """The reply is not wanted any more. Does nothing when it has come."""
        pooled, self._pooled = self._pooled, None
        if pooled is not None:
            self._pool._drop(pooled)

    def fail(self, reason: object) -> None:
        """The same; and the other connections to this actor are not trusted either."""
        pooled, self._pooled = self._pooled, None
        if pooled is not None:
            self._pool._failed(pooled, reason)


def _fits(frame: Frame) -> bool:
    return len(frame.columns) <= MOST_COLUMNS and frame.nbytes <= LARGEST_REQUEST


def _in_a_thread(task: Callable[[], None]) -> None:
    threading.Thread(target=task, name="unix-connect", daemon=True).start()
