"""A connection between two processes of one node: messages over a Unix socket, between peers that both know a key. A message has one part
or several: what is small in one string of bytes, large columns each as it is.

The proof of the key is `multiprocessing.connection`'s. Its connections are not used: they wait for ever for a peer that is stopped in the
midst of a message, or says nothing at all.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from multiprocessing.connection import answer_challenge, deliver_challenge
from typing import Any, NamedTuple

import numpy as np

__all__ = ["LARGEST_QUESTION", "MOST_PARTS", "NeighbourAddress", "NeighbourConnection"]

LARGEST_QUESTION = 1 << 28
"""Bytes. What is larger goes through Ray."""
HEAD = struct.Struct("!IQ")
"""How many parts come after the first, and the bytes of the first. If there are more, their lengths follow."""
LENGTH = struct.Struct("!Q")
MOST_PARTS = 1 << 16


class NeighbourAddress(NamedTuple):
    """Where a process is reached by those on its node, and what they must know. Told through Ray only."""

    node: str
    path: str
    key: bytes


class NeighbourConnection:
    """One thread at a time, but for `hang_up`. Every method may raise OSError or EOFError; the connection is of no use any more then: what
    was asked may still be answered, and be taken for the answer to the next question."""

    def __init__(self, own: socket.socket, seconds: float) -> None:
        """`seconds`: how long a peer may take to send or to take some of a message, once begun. May be changed."""
        self._socket = own
        self.seconds = seconds
        own.settimeout(seconds)

    @classmethod
    def to(cls, address: NeighbourAddress, seconds: float) -> NeighbourConnection:
        """To the door of another. Raises AuthenticationError, OSError or EOFError."""
        found = cls(socket.socket(socket.AF_UNIX), seconds)
        try:
            found._socket.connect(address.path)
            speaking: Any = _Speaking(found)
            answer_challenge(speaking, address.key)
            deliver_challenge(speaking, address.key)
        except BaseException:
            found.close()
            raise
        return found

    def admit(self, key: bytes) -> None:
        """The door's side of the same."""
        speaking: Any = _Speaking(self)
        deliver_challenge(speaking, key)
        answer_challenge(speaking, key)

    def send(self, first: bytes, *more: Any) -> None:
        """`more`: parts that are taken from where they are, without a copy; each a string of bytes or a view of bytes."""
        self._socket.settimeout(self.seconds)
        lengths = b"".join(LENGTH.pack(len(part)) for part in more)
        self._give(HEAD.pack(len(more), len(first)) + lengths + first)
        for part in more:
            self._give(part)

    def _give(self, part: bytes | memoryview) -> None:
        """Step by step: socket.sendall would have the time of one step for the whole."""
        given = self._socket.send(part)
        if given < len(part):
            left = memoryview(part)[given:]
            while left:
                left = left[self._socket.send(left) :]

    def receive(self, wait: float | None, largest: int | None = None) -> list[Any]:
        """The parts of the next message, if it begins within `wait` seconds; None: whenever that is."""
        lengths = self.announced(wait)
        if largest is not None and sum(lengths) > largest:
            raise OSError(f"a message of {sum(lengths):,} bytes, where {largest:,} are allowed")
        return self.parts(lengths)

    def announced(self, wait: float | None) -> list[int]:
        """The same, but only how long each part is; then come the `parts`."""
        self._socket.settimeout(None if wait is None else max(wait, 1e-3))
        head = self._socket.recv(HEAD.size)
        self._socket.settimeout(max(self.seconds, wait or 0.0))
        more, length = HEAD.unpack(head if len(head) == HEAD.size else self._rest(head, HEAD.size))
        if more > MOST_PARTS:
            raise OSError(f"a message of {more:,} parts")
        return [length, *(each for (each,) in LENGTH.iter_unpack(self._rest(b"", more * LENGTH.size)))]

    def parts(self, lengths: list[int]) -> list[Any]:
        return [self._rest(b"", lengths[0]), *(self._column(each) for each in lengths[1:])]

    def _rest(self, begun: bytes, length: int) -> bytes:
        """What was begun and whatever is missing of it."""
        message = bytearray(length)
        message[: len(begun)] = begun
        self._fill(memoryview(message)[len(begun) :])
        return bytes(message)

    def _column(self, length: int) -> Any:
        found = np.empty(length, np.uint8)  # not filled with zeros first
        self._fill(memoryview(found))  # type: ignore[arg-type]
        found.flags.writeable = False  # as what comes through Ray
        return found

    def _fill(self, view: memoryview) -> None:
        while view:
            more = self._socket.recv_into(view)
            if not more:
                raise EOFError
            view = view[more:]

    def hang_up(self) -> None:
        """From any thread: who waits here, on either side, waits no longer."""
        with suppress(OSError):  # it is over already
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


class _Speaking:
    """As `multiprocessing.connection` speaks when it asks for the proof."""

    def __init__(self, connection: NeighbourConnection) -> None:
        self._connection = connection

    def send_bytes(self, message: bytes) -> None:
        self._connection.send(message)

    def recv_bytes(self, largest: int | None = None) -> bytes:
        return bytes(self._connection.receive(self._connection.seconds, largest)[0])
