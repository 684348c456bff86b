"""The server's end of a socket: sizes, times, and clients that send nothing or nonsense."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from actors.transport.frames import MATCH, Frame, ProtocolError
from actors.transport.sockets.connection import HEAD, LENGTH, Connection
from actors.transport.sockets.unix_server import UnixServer
from tests.unit.transport.socket_ends import TIMEOUT, Finding, answer, ask, content, pooled, serving


@pytest.mark.parametrize(
    "garbage", [b"", b"\x00", b"\xff" * 12, HEAD.pack(1, 0, 1 << 31), b"GET / HTTP/1.0\r\n\r\n" * 9]
)
def test_a_client_that_sends_nothing_or_nonsense_keeps_no_other_waiting(garbage: bytes) -> None:
    with serving() as server:
        strangers = [socket.socket(socket.AF_UNIX) for _ in range(4)]
        for stranger in strangers:
            stranger.connect(server.address.path)
            stranger.sendall(garbage)
        with pooled(Finding(server.address)) as pool:
            assert ask(pool, 1) is None
            assert answer(pool, 1) == [1]
        for stranger in strangers:
            stranger.close()


@pytest.mark.parametrize(
    "head", [HEAD.pack(2, 0, 1 << 31), HEAD.pack(2, 1, 5) + LENGTH.pack(1 << 60), HEAD.pack(2, 65535, 1)]
)
def test_a_request_that_is_too_large_ends_its_connection_before_it_is_read(head: bytes) -> None:
    with serving() as server:
        connection = Connection.to(server.address, TIMEOUT)
        connection._socket.sendall(head)
        with pytest.raises((EOFError, OSError)):
            connection.receive(TIMEOUT)
        connection.close()
        with pooled(Finding(server.address)) as pool:
            assert ask(pool, 1) is None
            assert answer(pool, 1) == [1]


def test_a_request_that_is_not_valid_ends_its_connection() -> None:
    def refusing(_: Frame) -> Frame:
        raise ProtocolError("not valid")

    server = UnixServer(refusing, "here", "shard-0")
    connection = Connection.to(server.address, TIMEOUT)
    connection.send(Frame(MATCH, b"nonsense"))
    with pytest.raises((EOFError, OSError)):
        connection.receive(TIMEOUT)
    connection.close()
    server.close()


def test_a_frame_may_come_in_pieces() -> None:
    here, there = socket.socketpair()
    connection = Connection(here, TIMEOUT)
    whole = HEAD.pack(2, 2, 5) + LENGTH.pack(0) + LENGTH.pack(3) + b"hello" + b"you"

    def in_pieces() -> None:
        for place in range(len(whole)):
            there.sendall(whole[place : place + 1])

    with ThreadPoolExecutor(1) as threads:
        sent = threads.submit(in_pieces)
        found = connection.receive(TIMEOUT)
        assert (found.kind, found.header, [bytes(column) for column in found.columns]) == (2, b"hello", [b"", b"you"])
        sent.result()
    there.sendall(whole[:-1])
    there.close()
    with pytest.raises(EOFError):
        connection.receive(TIMEOUT)
    connection.close()


def test_a_reply_of_any_announced_size_is_not_allocated() -> None:
    here, there = socket.socketpair()
    connection = Connection(here, TIMEOUT)
    there.sendall(HEAD.pack(3, 1, 1) + LENGTH.pack(1 << 60))
    with pytest.raises(ProtocolError, match="are allowed"):
        connection.receive(TIMEOUT)
    connection.close()
    there.close()


def test_requests_for_which_there_is_no_room_are_not_read() -> None:
    began, go_on = threading.Event(), threading.Event()

    def slow(question: bytes) -> bytes:
        if question.startswith(b"slow"):
            began.set()
            assert go_on.wait(TIMEOUT)
        return question[:4]

    with serving(slow, most_bytes=5000) as server, pooled(Finding(server.address)) as pool:
        assert ask(pool, b"") is None
        assert answer(pool, b"long" * 4000) == b"long"  # alone
        first = ask(pool, b"slow" * 1000)
        assert first is not None and began.wait(TIMEOUT)
        assert ask(pool, b"") is None
        assert answer(pool, b"more" * 1000) is None
        assert ask(pool, b"") is None
        assert answer(pool, b"some" * 100) == b"some"
        go_on.set()
        assert content(first) == b"slow"
        assert answer(pool, b"more" * 1000) == b"more"
        assert server._bytes == 0


class SlowTaker:
    """A socket whose other side takes a byte at a time."""

    def __init__(self) -> None:
        self.taken = bytearray()

    def setblocking(self, blocking: bool) -> None:
        assert blocking

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        """Takes the timeouts."""

    def send(self, message: Any) -> int:
        self.taken += bytes(message[:1])
        return 1


def test_time_is_counted_from_the_last_piece_that_was_taken() -> None:
    slow: Any = SlowTaker()
    Connection(slow, 1.0).send(Frame(2, b"hello", [memoryview(b""), memoryview(b"you")]))
    assert slow.taken == HEAD.pack(2, 2, 5) + LENGTH.pack(0) + LENGTH.pack(3) + b"hello" + b"you"


def test_there_is_little_time_for_the_handshake_and_much_for_taking_replies() -> None:
    with (
        serving(handshake=TIMEOUT, taking=2 * TIMEOUT) as server,
        pooled(Finding(server.address)) as pool,
    ):
        assert ask(pool, 1) is None
        assert answer(pool, 1) == [1]
        assert [each.seconds for each in server._connections] == [2 * TIMEOUT]


def test_frames_that_come_together_or_in_pieces_are_told_apart() -> None:
    there, here = socket.socketpair()
    connection = Connection(here, TIMEOUT)
    frames = [Frame(2, b"one"), Frame(3, b"", [b"col", b""]), Frame(2, b"x" * 9000, [b"y" * 9000]), Frame(1, b"last")]
    sent = b"".join(
        HEAD.pack(each.kind, len(each.columns), len(each.header))
        + b"".join(LENGTH.pack(len(column)) for column in each.columns)
        + each.header
        + b"".join(each.columns)
        for each in frames
    )
    with there, ThreadPoolExecutor(1) as sending:
        for size in (len(sent), 1, 5000):
            pieces = [sent[start : start + size] for start in range(0, len(sent), size)]
            done = sending.submit(lambda own=pieces: [there.sendall(piece) for piece in own])  # type: ignore[misc]
            for each in frames:
                found = connection.receive(TIMEOUT)
                assert (*found[:2], [bytes(each) for each in found.columns]) == (*each[:2], list(each.columns))
            done.result()
    connection.close()


def test_waiting_for_a_frame_ends_in_time_and_a_frame_that_stops_ends_too() -> None:
    there, here = socket.socketpair()
    connection = Connection(here, 0.05)
    with there:
        with pytest.raises(TimeoutError):
            connection.receive(0.0)
        with pytest.raises(TimeoutError):
            connection.receive(0.03)
        there.sendall(HEAD.pack(2, 0, 5) + b"hel")
        with pytest.raises(TimeoutError):
            connection.receive(0.01)
    connection.close()
