"""A Unix socket at which processes of the same node reach an actor, beside Ray: a call through Ray takes longer than matching one event,
and for a batch it costs every process some work for every column.

A peer must run as this user and prove that it knows the key before anything it sends is read. Whatever goes wrong here ends in NO_REPLY or
in the end of the connection; the caller then falls back to Ray.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from actors.transport.frames import NO_REPLY, Frame, ProtocolError
from actors.transport.sockets.connection import LARGEST_REPLY, LARGEST_REQUEST, Connection, SocketAddress
from actors.transport.sockets.handshake import AuthenticationError
from actors.transport.sockets.socket_folder import SOCKET, private_folder, remove_abandoned

__all__ = ["UnixServer"]

logger = logging.getLogger(__name__)

MOST_CONNECTIONS = 512
"""The most connections. Each has a thread."""
HANDSHAKE_SECONDS = 5.0
TAKING_SECONDS = 60.0
PAUSE = 0.1
NOTHING = Frame(NO_REPLY, b"")


class UnixServer:
    """Listens from the beginning. `answer` gets a request and returns the reply; several threads call it. It raises ProtocolError for a
    request that is not valid; other exceptions are logged, and the caller falls back to Ray.

    `role` is the actor's name. `handshake` is the seconds for each message of the handshake. `taking` is the seconds within which the
    client must take some of a reply: it may first wait for others, or be busy with an earlier one; after that it has to ask again.
    `most_bytes` bounds all requests that are being read or answered, but for small ones; a larger request is read only alone. Raises
    OSError if there is no safe place for the socket.
    """

    def __init__(
        self,
        answer: Callable[[Frame], Frame],
        node: str,
        role: str,
        handshake: float = HANDSHAKE_SECONDS,
        taking: float = TAKING_SECONDS,
        most_bytes: int | None = None,
        user: int | None = None,
    ) -> None:
        """`user` is the user whose processes are admitted; None means this process's user."""
        self._answer, self._handshake, self._taking, self._user = answer, handshake, taking, user
        self._most_bytes, self._bytes = most_bytes, 0
        self._process = os.getpid()
        self._folder = private_folder()
        remove_abandoned(self._folder.parent)
        self.address = SocketAddress(node, str(self._folder / SOCKET), role, secrets.token_bytes(32))
        self._lock = threading.Lock()
        self._connections: set[Connection] = set()
        self._closed = threading.Event()
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._listen(Path(self.address.path))
        except OSError:
            self.close()
            raise
        threading.Thread(target=self._accept, name="unix-server", daemon=True).start()

    def _listen(self, path: Path) -> None:
        """Listens before the socket gets its final name: a socket at which nobody listens counts as abandoned."""
        early = path.with_suffix(".new")
        self._socket.bind(str(early))
        early.chmod(0o600)
        self._socket.listen()
        early.rename(path)

    def close(self) -> None:
        """Answers no further requests. May be called again; in a forked process it does nothing."""
        if self._process != os.getpid():
            return
        with self._lock:
            self._closed.set()
            connections = list(self._connections)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._socket.close()
        for connection in connections:
            connection.hang_up()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._socket.accept()
            except OSError as error:
                if not self._closed.wait(PAUSE):  # mostly too many open files, which is temporary
                    logger.warning("no connection was accepted: %s", error)
                continue
            try:
                self._start(client)
            except Exception:  # any error: the next connection must be accepted
                logger.exception("a connection was not accepted")
                client.close()

    def _start(self, client: socket.socket) -> None:
        connection = Connection(client, self._handshake)
        with self._lock:
            if self._closed.is_set() or len(self._connections) >= MOST_CONNECTIONS:
                connection.close()
                return
            self._connections.add(connection)
        try:
            threading.Thread(target=self._serve, args=(connection,), name="unix-client", daemon=True).start()
        except RuntimeError:  # no more threads can be started
            self._connections.discard(connection)
            raise

    def _serve(self, connection: Connection) -> None:
        """Serves one connection. The handshake is done here and not in `_accept`, so that a silent client keeps no other one waiting."""
        try:
            connection.admit(self.address, self._user)
            connection.seconds = self._taking
            while True:
                request = connection.small(None)
                reply = self._reply_within_bounds(connection) if request is None else self._reply(request)
                connection.send(reply)
                del request, reply  # frees them while no request comes
        except EOFError:
            pass
        except (AuthenticationError, PermissionError, ProtocolError) as error:
            logger.warning("a connection was closed: %s", error)
        except Exception as error:
            logger.info("a connection ended: %r", error)
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def _reply_within_bounds(self, connection: Connection) -> Frame:
        """Reads and answers a request if there is room for it; nothing of it is read before. Through Ray a request waits outside of this
        process."""
        envelope = connection.announced(None)
        size = envelope.nbytes
        with self._lock:
            room = LARGEST_REQUEST if self._most_bytes is None or not self._bytes else self._most_bytes - self._bytes
            if size > min(room, LARGEST_REQUEST):
                raise OSError(f"a request of {size:,} bytes, for which there is no room")
            self._bytes += size
        try:
            return self._reply(connection.content(envelope))
        finally:
            with self._lock:
                self._bytes -= size

    def _reply(self, request: Frame) -> Frame:
        try:
            reply = self._answer(request)
            return reply if not reply.columns or reply.nbytes <= LARGEST_REPLY else NOTHING
        except ProtocolError:
            raise
        except Exception as error:  # through Ray the exception is raised at the caller
            logger.debug("a request was not answered: %r", error)
            return NOTHING
