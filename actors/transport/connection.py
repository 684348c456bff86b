"""A connection between two processes of one node: frames over a Unix socket, between processes of one user that both know a key.

`multiprocessing.connection` is not used: its connections wait for ever for a peer that is stopped in the middle of a message, its messages
are pickled, and its proof of the key can be reflected to its sender.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from actors.transport.frames import Frame, ProtocolError
from actors.transport.handshake import prove_as_client, prove_as_server
from actors.transport.socket_folder import check_peer, check_socket

__all__ = ["LARGEST_REPLY", "LARGEST_REQUEST", "MOST_COLUMNS", "Connection", "Envelope", "SocketAddress"]

LARGEST_REQUEST = 1 << 28
"""The size limit of a request in bytes. Larger ones go through Ray."""
LARGEST_REPLY = 1 << 32
HEAD = struct.Struct("!BHI")
"""The frame's kind, its number of columns, and the size of its header in bytes. The lengths of the columns follow, then header and
columns."""
LENGTH = struct.Struct("!Q")
MOST_COLUMNS = 1 << 14
READ_AT_ONCE = 1 << 16


class SocketAddress(NamedTuple):
    """The address at which other processes of the node reach this one, and the key they must know. It is only sent through Ray."""

    node: str
    path: str
    role: str
    """The actor's name: shard-0, coordinator-1."""
    key: bytes


class Envelope(NamedTuple):
    """The kind and sizes that a frame's first bytes announce."""

    kind: int
    header: int
    columns: Sequence[int]

    @property
    def nbytes(self) -> int:
        return self.header + sum(self.columns)


class Connection:
    """One end of a connection, for one thread at a time, except `hang_up`. Every method may raise OSError (ProtocolError is one) or
    EOFError. The connection must then be closed: the reply to what was sent may still come, and would be taken for the reply to the
    next request."""

    def __init__(self, own: socket.socket, seconds: float) -> None:
        """`seconds` is the time within which the peer must make progress in sending or receiving a frame that has begun. It may be
        changed."""
        self._socket = own
        self.seconds = seconds
        own.settimeout(seconds)

    @classmethod
    def to(cls, address: SocketAddress, seconds: float) -> Connection:
        """Connects as a client. Raises PermissionError if the socket, or the process that listens there, is not this user's;
        AuthenticationError if the process does not know the key."""
        check_socket(Path(address.path))
        found = cls(socket.socket(socket.AF_UNIX), seconds)
        try:
            found._socket.connect(address.path)
            check_peer(found._socket)
            prove_as_client(found._give, found._exactly, address.key, address.role)
        except BaseException:
            found.close()
            raise
        return found

    def admit(self, address: SocketAddress, user: int | None = None) -> None:
        """Checks, as a server, the process that has connected. Raises PermissionError and AuthenticationError."""
        check_peer(self._socket, user)
        prove_as_server(self._give, self._exactly, address.key, address.role)

    def send(self, frame: Frame) -> None:
        self._socket.settimeout(self.seconds)
        lengths = b"".join(LENGTH.pack(memoryview(column).nbytes) for column in frame.columns)
        self._give(HEAD.pack(frame.kind, len(frame.columns), len(frame.header)) + lengths + frame.header)
        for column in frame.columns:
            self._give(memoryview(column))

    def _give(self, content: bytes | memoryview) -> None:
        """Sends all bytes step by step. With socket.sendall the timeout of one step would apply to the whole."""
        given = self._socket.send(content)
        if given < len(content):
            left = memoryview(content)[given:]
            while left:
                left = left[self._socket.send(left) :]

    def receive(self, wait: float | None, largest: int = LARGEST_REPLY) -> Frame:
        """Returns the next frame, which must begin within `wait` seconds; None waits without limit."""
        envelope = self.announced(wait)
        if envelope.nbytes > largest:
            raise ProtocolError(f"a frame of {envelope.nbytes:,} bytes, where {largest:,} are allowed")
        return self.content(envelope)

    def announced(self, wait: float | None) -> Envelope:
        """Returns the sizes of the next frame. `content` must be called next to read the rest."""
        self._socket.settimeout(None if wait is None else max(wait, 1e-3))
        head = self._socket.recv(HEAD.size)
        self._socket.settimeout(max(self.seconds, wait or 0.0))
        kind, columns, header = HEAD.unpack(
            head if len(head) == HEAD.size else head + self._exactly(HEAD.size - len(head))
        )
        if columns > MOST_COLUMNS:
            raise ProtocolError(f"a frame of {columns:,} columns")
        lengths = [length for (length,) in LENGTH.iter_unpack(self._exactly(columns * LENGTH.size))] if columns else ()
        return Envelope(kind, header, lengths)

    def content(self, envelope: Envelope) -> Frame:
        header = self._exactly(envelope.header)
        return Frame(envelope.kind, header, [self._column(length) for length in envelope.columns])

    def _exactly(self, length: int) -> bytes:
        if not length:
            return b""
        begun = self._socket.recv(min(length, READ_AT_ONCE))
        if len(begun) == length:
            return begun
        if not begun:
            raise EOFError
        message = bytearray(length)
        message[: len(begun)] = begun
        self._fill(memoryview(message)[len(begun) :])
        return bytes(message)

    def _column(self, length: int) -> Any:
        found = np.empty(length, np.uint8)  # np.empty avoids filling it with zeros first
        self._fill(memoryview(found))  # type: ignore[arg-type]
        found.flags.writeable = False  # read-only, like arrays that come through Ray
        return found

    def _fill(self, view: memoryview) -> None:
        while view:
            more = self._socket.recv_into(view)
            if not more:
                raise EOFError
            view = view[more:]

    def fileno(self) -> int:
        return self._socket.fileno()

    def hang_up(self) -> None:
        """Ends all waiting at both ends. May be called from any thread."""
        with suppress(OSError):  # the socket is closed already
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()
