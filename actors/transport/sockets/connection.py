"""A connection between two processes of one node: frames over a Unix socket, between processes of one user that both know a key.

`multiprocessing.connection` is not used: its connections wait for ever for a peer that is stopped in the middle of a message, its messages
are pickled, and its proof of the key can be reflected to its sender.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from actors.transport.frames import Frame, ProtocolError
from actors.transport.sockets.handshake import prove_as_client, prove_as_server
from actors.transport.sockets.socket_folder import check_peer, check_socket
from actors.transport.sockets.socket_watch import SocketWatch

__all__ = ["LARGEST_REPLY", "LARGEST_REQUEST", "MOST_COLUMNS", "Connection", "Envelope", "SocketAddress"]

LARGEST_REQUEST = 1 << 28
"""The size limit of a request in bytes. Larger ones go through Ray."""
LARGEST_REPLY = 1 << 32
HEAD = struct.Struct("!BHI")
"""The frame's kind, its number of columns, and the size of its header in bytes. The lengths of the columns follow, then header and
columns."""
LENGTH = struct.Struct("!Q")
MOST_COLUMNS = 1 << 14
READ_FIRST, SMALL = 1 << 13, 1 << 11
"""The bytes to read at first, and the most bytes of a small frame."""
LONGEST_STEP, SHORTEST_STEP = 0.5, 1e-3
"""The seconds of one step of waiting for a frame."""
TAKES_NOTHING = "the peer takes nothing"
TIMEVAL = struct.Struct("ll")


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
    next request.

    The kernel keeps the timeouts: with `socket.settimeout` every send and every receive would be three calls of the system, and a small
    frame is read by one.
    """

    def __init__(self, own: socket.socket, seconds: float) -> None:
        """`seconds` is the time within which the peer must make progress in sending or receiving a frame that has begun."""
        self._socket = own
        self._rest = b""
        """What was read together with the frame before."""
        self._watch: SocketWatch | None = None
        own.setblocking(True)
        self._receiving = self._progress = 0.0
        """The timeout of receiving that the socket has now, which is none if 0; and the one for the rest of a frame."""
        self.seconds = seconds

    @property
    def seconds(self) -> float:
        return self._seconds

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        self._seconds = self._progress = seconds
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(seconds))
        self._receive_within(seconds)

    def _receive_within(self, seconds: float) -> None:
        if seconds != self._receiving:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(seconds))
            self._receiving = seconds

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
        if not frame.columns:
            message = HEAD.pack(frame[0], 0, len(frame[1])) + frame[1]
            try:
                given = self._socket.send(message)
            except BlockingIOError:
                raise TimeoutError(TAKES_NOTHING) from None
            if given < len(message):
                self._give(memoryview(message)[given:])
            return
        lengths = b"".join(LENGTH.pack(memoryview(column).nbytes) for column in frame.columns)
        self._give(HEAD.pack(frame.kind, len(frame.columns), len(frame.header)) + lengths + frame.header)
        for column in frame.columns:
            self._give(memoryview(column))

    def _give(self, content: bytes | memoryview) -> None:
        """Sends all bytes step by step. With socket.sendall the timeout of one step would apply to the whole."""
        try:
            given = self._socket.send(content)
            if given < len(content):
                left = memoryview(content)[given:]
                while left:
                    left = left[self._socket.send(left) :]
        except BlockingIOError:
            raise TimeoutError(TAKES_NOTHING) from None

    def receive(self, wait: float | None, largest: int = LARGEST_REPLY) -> Frame:
        """Returns the next frame, which must begin within `wait` seconds; None waits without limit."""
        small = self.small(wait)
        if small is not None:
            return small
        envelope = self.announced(wait)
        if envelope.nbytes > largest:
            raise ProtocolError(f"a frame of {envelope.nbytes:,} bytes, where {largest:,} are allowed")
        return self.content(envelope)

    def small(self, wait: float | None) -> Frame | None:
        """Returns the next frame if it is small and has come in one piece. Otherwise returns None, and `announced` must be called next."""
        begun = self._rest or self._first(wait)
        if HEAD.size <= len(begun) <= SMALL:
            kind, columns, header = HEAD.unpack_from(begun)
            if not columns and len(begun) == HEAD.size + header:
                self._rest = b""
                return Frame(kind, begun[HEAD.size :])
        self._rest = begun
        return None

    def announced(self, wait: float | None) -> Envelope:
        """Returns the sizes of the next frame. `content` must be called next to read the rest. What is read before is `READ_FIRST`
        bytes at most."""
        begun = self._rest or self._first(wait)
        self._progress = self._seconds if wait is None or wait < self._seconds else wait
        if len(begun) < HEAD.size:
            begun += self._exactly(HEAD.size - len(begun))
        kind, columns, header = HEAD.unpack_from(begun)
        first = HEAD.size + columns * LENGTH.size
        lengths: Sequence[int] = ()
        if columns:
            if columns > MOST_COLUMNS:
                raise ProtocolError(f"a frame of {columns:,} columns")
            if len(begun) < first:
                begun += self._exactly(first - len(begun))
            lengths = [length for (length,) in LENGTH.iter_unpack(begun[HEAD.size : first])]
        self._rest = begun[first:]
        return Envelope(kind, header, lengths)

    def content(self, envelope: Envelope) -> Frame:
        header, rest = envelope.header, self._rest
        head = rest[:header]
        self._rest = rest[header:]
        if len(head) < header:
            head += self._exactly(header - len(head))
        return Frame(envelope.kind, head, [self._column(length) for length in envelope.columns])

    def _first(self, wait: float | None) -> bytes:
        """Returns the first bytes of a frame, which must come within `wait` seconds. The socket's timeout is changed only near the end:
        mostly a frame comes sooner than that, and a change would be one more call of the system."""
        if wait is None:
            if self._receiving:
                self._receive_within(0.0)
            begun = self._socket.recv(READ_FIRST)
        else:
            ends = time.monotonic() + wait
            left = wait
            while True:
                step = LONGEST_STEP if left > LONGEST_STEP else max(left, SHORTEST_STEP)
                if step != self._receiving:
                    self._receive_within(step)
                try:
                    begun = self._socket.recv(READ_FIRST)
                    break
                except BlockingIOError:
                    left = ends - time.monotonic()
                    if left <= 0:
                        raise TimeoutError("no frame has come") from None
        if not begun:
            raise EOFError
        return begun

    def _exactly(self, length: int) -> bytes:
        message = bytearray(length)
        self._fill(memoryview(message))
        return bytes(message)

    def _column(self, length: int) -> Any:
        found = np.empty(length, np.uint8)  # np.empty avoids filling it with zeros first
        view = memoryview(found)  # type: ignore[arg-type]
        begun, self._rest = self._rest[:length], self._rest[length:]
        view[: len(begun)] = begun
        self._fill(view[len(begun) :])
        found.flags.writeable = False  # read-only, like arrays that come through Ray
        return found

    def _fill(self, view: memoryview) -> None:
        """Reads what has begun to come."""
        self._receive_within(self._progress)
        try:
            while view:
                more = self._socket.recv_into(view)
                if not more:
                    raise EOFError
                view = view[more:]
        except BlockingIOError:
            raise TimeoutError("the rest of a frame has not come") from None

    def until_readable(self, seconds: float) -> asyncio.Future[None]:
        """Returns what is done when the next frame has begun, or the connection has ended, or after this time; it holds no thread."""
        loop = asyncio.get_running_loop()
        watch = self._watch
        if watch is None or watch.loop is not loop or not watch.active:
            if watch is not None:
                self._watch = None
                watch.leave()
            watch = self._watch = SocketWatch(self._socket, loop)
        return watch.until_readable(seconds)

    def hang_up(self) -> None:
        """Ends all waiting at both ends. May be called from any thread."""
        with suppress(OSError):  # the socket is closed already
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._watch is None:
            self._socket.close()
        else:
            self._watch.close(self._socket)


def _timeval(seconds: float) -> bytes:
    """Returns a timeout as the kernel takes it, which is none for 0."""
    whole, part = divmod(max(0, round(seconds * 1_000_000)), 1_000_000)
    return TIMEVAL.pack(whole, part)
