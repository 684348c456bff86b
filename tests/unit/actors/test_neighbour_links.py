"""Links between processes of one node, here between threads: what is answered, who is let in, and when there is no answer."""

from __future__ import annotations

import os
import pickle
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import AuthenticationError
from pathlib import Path
from stat import S_IMODE
from typing import Any

import numpy as np
import pytest

from actors import neighbour_links
from actors.neighbour_connection import HEAD, LENGTH, NeighbourAddress, NeighbourConnection
from actors.neighbour_door import NeighbourDoor
from actors.neighbour_links import NeighbourLinks
from actors.packing import packed_apart, unpacked_apart
from ray_pubsub.errors import UnavailableError

TIMEOUT = 60.0


def echo(*question: Any) -> bytes:
    return repr(question).encode()


@contextmanager
def door(answer: Callable[..., bytes] = echo, node: str = "here") -> Iterator[NeighbourDoor]:
    """Whose answers have one part."""
    found = NeighbourDoor(lambda *question: [answer(*question)], node)
    try:
        yield found
    finally:
        found.close()


class Finding:
    """Where each shard is at the moment; counts who asks."""

    def __init__(self, *addresses: NeighbourAddress | None) -> None:
        self.addresses = list(addresses)
        self.asked = 0

    def __call__(self, shard: int) -> NeighbourAddress | None:
        self.asked += 1
        return self.addresses[shard]


def at_once(task: Callable[[], None]) -> None:
    task()


@contextmanager
def linked(find: Callable[[int], NeighbourAddress | None], most: int = 8, **more: Any) -> Iterator[NeighbourLinks]:
    """Links are made at once, and failures are forgotten at once, unless told otherwise."""
    found = NeighbourLinks(find, "here", most, **{"aside": at_once, "patience": TIMEOUT, "pause": 0.0, **more})
    try:
        yield found
    finally:
        found.close()


def answer(links: NeighbourLinks, *question: Any, shard: int = 0, timeout: float = TIMEOUT) -> bytes | None:
    asked = links.ask(shard, *question)
    return None if asked is None else the_part(asked.answer(timeout))


def the_part(parts: list[Any] | None) -> bytes | None:
    if parts is None:
        return None
    (only,) = parts
    return bytes(only)


def test_the_first_question_finds_no_link_and_the_next_one_does() -> None:
    with door() as opened, linked(Finding(opened.address)) as links:
        assert links.ask(0, 1) is None
        assert answer(links, [{"x": 1}], "lineage", 7) == b"([{'x': 1}], 'lineage', 7)"
        assert answer(links, b"x" * 500_000) == echo(b"x" * 500_000)
        assert links.answered == 2


def test_several_shards_are_asked_before_the_first_is_waited_for() -> None:
    both = threading.Barrier(2)

    def when_both_are_asked(question: str) -> bytes:
        both.wait(TIMEOUT)
        return question.encode()

    with (
        door(when_both_are_asked) as one,
        door(when_both_are_asked) as two,
        linked(Finding(one.address, two.address)) as links,
    ):
        assert [links.ask(shard, "") for shard in (0, 1)] == [None, None]
        asked = [links.ask(shard, f"to {shard}") for shard in (0, 1)]
        assert [each and the_part(each.answer(TIMEOUT)) for each in asked] == [b"to 0", b"to 1"]


def test_columns_travel_as_they_are() -> None:
    def doubled(name: str, columns: list[Any]) -> list[Any]:
        return packed_apart((name, [2 * column for column in columns]))

    columns = [np.arange(1_000_000), np.empty(0, np.int32), np.ones((3, 4), np.float32)]
    opened = NeighbourDoor(doubled, "here")
    with linked(Finding(opened.address), most=1) as links:
        assert links.ask(0, "first", columns) is None
        for _ in range(3):
            asked = links.ask(0, "large", columns, patience=TIMEOUT)
            assert asked is not None
            parts = asked.answer(TIMEOUT)
            assert parts is not None and len(parts) == 4
            name, found = unpacked_apart(parts)
            assert name == "large"
            assert all(
                (two == 2 * one).all() and two.dtype == one.dtype for one, two in zip(columns, found, strict=True)
            )
    opened.close()


def test_many_threads_get_their_own_answers_over_no_more_links_than_allowed() -> None:
    with door() as opened, linked(Finding(opened.address), most=3) as links:

        def ask(number: int) -> bool:
            """Whether there was a link for it."""
            found = answer(links, number)
            assert found in (None, echo(number))
            return found is not None

        assert not ask(0)  # there is a link now: else all might have asked before one was made
        with ThreadPoolExecutor(16) as pool:
            answered = sum(pool.map(ask, range(2000)))
        assert links.answered == answered > 0
        assert 1 <= len(opened._inside) <= 3


def test_whatever_a_shard_raises_is_no_answer() -> None:
    def raising(error: Exception | None) -> bytes:
        if error is not None:
            raise error
        return b"fine"

    with door(raising) as opened, linked(find := Finding(opened.address)) as links:
        assert links.ask(0, None) is None
        assert answer(links, UnavailableError("shard 0", "is loading")) is None
        assert links.ask(0, None) is None  # whoever is there may have been replaced: it is asked for anew
        assert find.asked == 2
        assert answer(links, KeyError("x")) is None
        assert links.ask(0, None) is None
        assert answer(links, None) == b"fine"


def test_what_cannot_be_packed_or_is_too_large_is_not_for_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbour_links, "LARGEST_QUESTION", 1000)
    with door() as opened, linked(Finding(opened.address)) as links:
        assert links.ask(0, 1) is None
        assert links.ask(0, lambda: None) is None
        assert links.ask(0, b"x" * 1001) is None
        assert links.ask(0, np.zeros(1001, np.uint8), patience=TIMEOUT) is None
        monkeypatch.setattr(neighbour_links, "MOST_PARTS", 3)
        assert links.ask(0, [np.zeros(1) for _ in range(3)], patience=TIMEOUT) is None
        assert answer(links, 1) == echo(1)  # the link is as good as before


def test_a_shard_that_dies_is_no_answer_and_its_successor_is_found() -> None:
    dying = threading.Event()

    def dead(*_: Any) -> bytes:
        dying.set()
        first.close()
        return b"from the grave"

    with door(dead) as first, door() as second, linked(find := Finding(first.address)) as links:
        assert links.ask(0, 1) is None
        assert answer(links, 1) is None
        assert dying.is_set()
        assert links.ask(0, 1) is None  # nobody is at the old address
        find.addresses[0] = second.address
        assert links.ask(0, 1) is None
        assert answer(links, 1) == echo(1)


def test_a_link_that_broke_while_it_was_idle() -> None:
    with door() as first, linked(find := Finding(first.address)) as links:
        assert links.ask(0, 1) is None
        first.close()
        with door() as second:
            find.addresses[0] = second.address
            assert answer(links, 1) is None
            assert links.ask(0, 1) is None
            assert answer(links, 1) == echo(1)


def test_a_late_answer_is_not_taken_for_the_next_one() -> None:
    go_on = threading.Event()

    def slow(question: str) -> bytes:
        if question == "slow":
            assert go_on.wait(TIMEOUT)
        return question.encode()

    with door(slow) as opened, linked(Finding(opened.address)) as links:
        assert links.ask(0, "") is None
        assert answer(links, "slow", timeout=0.001) is None
        go_on.set()
        assert links.ask(0, "") is None
        assert [answer(links, f"{number}") for number in range(3)] == [b"0", b"1", b"2"]


def test_a_link_has_less_patience_than_its_caller() -> None:
    go_on = threading.Event()
    with door(lambda: b"late" * go_on.wait(TIMEOUT)) as opened, linked(Finding(opened.address), patience=0.05) as links:
        assert links.ask(0) is None
        assert answer(links) is None
        go_on.set()


def test_a_question_nobody_waits_for_takes_its_link_with_it() -> None:
    with door() as opened, linked(Finding(opened.address)) as links:
        assert links.ask(0, 1) is None
        asked = links.ask(0, 1)
        assert asked is not None
        asked.give_up()
        asked.give_up()
        assert links.ask(0, 2) is None
        assert answer(links, 3) == echo(3)


def test_a_question_nobody_waits_for_leaves_other_links_as_they_are() -> None:
    with door() as opened, linked(find := Finding(opened.address)) as links:
        assert links.ask(0, 1) is None
        first = links.ask(0, 1)
        assert links.ask(0, 2) is None
        assert answer(links, 3) == echo(3)
        assert first is not None
        first.give_up()
        assert answer(links, 4) == echo(4)
        assert find.asked == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_who_is_interrupted_gives_the_link_up(monkeypatch: pytest.MonkeyPatch, error: type[BaseException]) -> None:
    def interrupted(*_: Any) -> None:
        raise error

    with door() as opened, linked(Finding(opened.address), most=1) as links:
        assert links.ask(0, 1) is None
        asked = links.ask(0, 1)
        assert asked is not None
        with monkeypatch.context() as patched:
            patched.setattr(NeighbourConnection, "receive", interrupted)
            with pytest.raises(error):
                asked.answer(TIMEOUT)
        assert asked.answer(TIMEOUT) is None
        assert links.ask(0, 2) is None  # of one that is allowed, one is made
        with monkeypatch.context() as patched:
            patched.setattr(NeighbourConnection, "send", interrupted)
            with pytest.raises(error):
                links.ask(0, 3)
        assert links.ask(0, 4) is None
        assert answer(links, 5) == echo(5)


def test_a_process_that_was_forked_off_reads_no_answers_of_its_parent() -> None:
    with door() as opened, linked(Finding(opened.address)) as links:
        assert links.ask(0, 1) is None
        assert answer(links, 1) == echo(1)
        asked = links.ask(0, 2)
        assert asked is not None and links.ask(0, 3) is None
        child = os.fork()
        if child == 0:
            wrong = 1
            try:
                found = [asked.answer(TIMEOUT), links.ask(0, 4), links.ask(0, 5)]
                asked.give_up()
                links.close()
                opened.close()
                wrong = int(found != [None] * 3)
            finally:
                os._exit(wrong)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert the_part(asked.answer(TIMEOUT)) == echo(2)
        assert [answer(links, number) for number in range(6, 10)] == [echo(number) for number in range(6, 10)]
        assert Path(opened.address.path).exists()


def test_links_in_use_when_their_shard_is_forgotten_are_not_used_again() -> None:
    with door() as first, door() as second, linked(find := Finding(first.address)) as links:
        assert links.ask(0, 1) is None
        asked = links.ask(0, 1)
        assert asked is not None
        links.forget(0)
        find.addresses[0] = second.address
        assert the_part(asked.answer(TIMEOUT)) == echo(1)
        assert links.ask(0, 1) is None
        assert answer(links, 2) == echo(2)
        assert len(second._inside) == 1


def test_a_shard_elsewhere_or_without_a_door_is_not_asked_for_again_soon() -> None:
    with door(node="elsewhere") as opened, linked(find := Finding(opened.address, None)) as links:
        assert [links.ask(shard, 1) for shard in (0, 1, 0, 1)] == [None] * 4
        assert find.asked == 2


def test_a_shard_that_cannot_be_asked_for_its_address_is_left_alone_for_a_while() -> None:
    asked = []

    def away(shard: int) -> NeighbourAddress | None:
        asked.append(shard)
        raise UnavailableError("shard 0", "is away")

    with linked(away, pause=TIMEOUT) as links:
        assert [links.ask(0, 1) for _ in range(3)] == [None] * 3
        assert asked == [0]


def test_no_question_waits_for_an_address() -> None:
    found, told = threading.Event(), threading.Event()
    with door() as opened:

        def find(_: int) -> NeighbourAddress:
            assert found.wait(TIMEOUT)
            return opened.address

        def aside(task: Callable[[], None]) -> None:
            threading.Thread(target=lambda: (task(), told.set()), daemon=True).start()

        with linked(find, aside=aside) as links:
            assert [links.ask(0, 1) for _ in range(3)] == [None] * 3
            found.set()
            assert told.wait(TIMEOUT)
            assert answer(links, 1) == echo(1)


def test_closed_links_ask_nobody() -> None:
    with door() as opened, linked(find := Finding(opened.address)) as links:
        assert links.ask(0, 1) is None
        asked = links.ask(0, 1)
        assert asked is not None
        links.close()
        assert the_part(asked.answer(TIMEOUT)) == echo(1)
        assert links.ask(0, 1) is None
        assert find.asked == 1


# Who comes to the door


def test_who_does_not_know_the_key_is_refused_and_nothing_of_his_is_unpacked() -> None:
    with door() as opened:
        with pytest.raises(AuthenticationError):
            NeighbourConnection.to(opened.address._replace(key=b"another"), TIMEOUT)
        with linked(Finding(opened.address._replace(key=b"another"))) as links:
            assert [links.ask(0, 1) for _ in range(2)] == [None, None]
        stranger = socket.socket(socket.AF_UNIX)
        stranger.settimeout(TIMEOUT)
        stranger.connect(opened.address.path)
        question = pickle.dumps((1,))
        stranger.sendall(HEAD.pack(0, len(question)) + question)
        received = b""
        while more := stranger.recv(4096):
            received += more
        assert b"(1,)" not in received
        stranger.close()


def test_a_door_that_does_not_know_the_key_is_not_believed() -> None:
    with door() as opened, door() as other:
        false = other.address._replace(key=opened.address.key)
        with pytest.raises(AuthenticationError):
            NeighbourConnection.to(false, TIMEOUT)


@pytest.mark.parametrize(
    "garbage", [b"", b"\x00", b"\xff" * 12, HEAD.pack(0, 1 << 60), HEAD.pack(9, 1), b"GET / HTTP/1.0\r\n\r\n" * 9]
)
def test_one_who_says_nothing_or_garbage_keeps_nobody_waiting(garbage: bytes) -> None:
    with door() as opened:
        strangers = [socket.socket(socket.AF_UNIX) for _ in range(4)]
        for stranger in strangers:
            stranger.connect(opened.address.path)
            stranger.sendall(garbage)
        with linked(Finding(opened.address)) as links:
            assert links.ask(0, 1) is None
            assert answer(links, 1) == echo(1)
        for stranger in strangers:
            stranger.close()


@pytest.mark.parametrize("head", [HEAD.pack(0, 1 << 60), HEAD.pack(1, 5) + LENGTH.pack(1 << 60), HEAD.pack(1 << 30, 1)])
def test_a_question_that_is_too_large_ends_its_connection_before_it_is_read(head: bytes) -> None:
    with door() as opened:
        connection = NeighbourConnection.to(opened.address, TIMEOUT)
        connection._socket.sendall(head)
        with pytest.raises((EOFError, OSError)):
            connection.receive(TIMEOUT)
        connection.close()
        with linked(Finding(opened.address)) as links:
            assert links.ask(0, 1) is None
            assert answer(links, 1) == echo(1)


def test_a_message_may_come_in_pieces() -> None:
    here, there = socket.socketpair()
    connection = NeighbourConnection(here, TIMEOUT)
    whole = HEAD.pack(2, 5) + LENGTH.pack(0) + LENGTH.pack(3) + b"hello" + b"you"

    def in_pieces() -> None:
        for place in range(len(whole)):
            there.sendall(whole[place : place + 1])

    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(in_pieces)
        assert [bytes(part) for part in connection.receive(TIMEOUT)] == [b"hello", b"", b"you"]
        sent.result()
    there.sendall(whole[:-1])
    there.close()
    with pytest.raises(EOFError):
        connection.receive(TIMEOUT)
    connection.close()


def test_questions_for_which_there_is_no_room_are_not_read() -> None:
    began, go_on = threading.Event(), threading.Event()

    def slow(question: bytes) -> list[bytes]:
        if question.startswith(b"slow"):
            began.set()
            assert go_on.wait(TIMEOUT)
        return [question[:4]]

    opened = NeighbourDoor(slow, "here", most_bytes=5000)
    with linked(Finding(opened.address)) as links:
        assert links.ask(0, b"") is None
        assert answer(links, b"long" * 4000) == b"long"  # alone
        first = links.ask(0, b"slow" * 1000)
        assert first is not None and began.wait(TIMEOUT)
        assert links.ask(0, b"") is None
        assert answer(links, b"more" * 1000) is None
        assert links.ask(0, b"") is None
        assert answer(links, b"some" * 100) == b"some"
        go_on.set()
        assert the_part(first.answer(TIMEOUT)) == b"slow"
        assert answer(links, b"more" * 1000) == b"more"
    assert opened._bytes == 0
    opened.close()


class SlowTaker:
    """A socket whose other side takes a byte at a time."""

    def __init__(self) -> None:
        self.taken = bytearray()

    def settimeout(self, seconds: float | None) -> None:
        pass

    def send(self, message: Any) -> int:
        self.taken += bytes(message[:1])
        return 1


def test_time_is_counted_anew_with_every_piece_that_is_taken() -> None:
    slow: Any = SlowTaker()
    NeighbourConnection(slow, 1.0).send(b"hello", memoryview(b""), memoryview(b"you"))
    assert slow.taken == HEAD.pack(2, 5) + LENGTH.pack(0) + LENGTH.pack(3) + b"hello" + b"you"


def test_there_is_little_time_for_the_proof_and_much_for_taking_answers() -> None:
    opened = NeighbourDoor(lambda *question: [echo(*question)], "here", seconds=TIMEOUT, taking=2 * TIMEOUT)
    with linked(Finding(opened.address)) as links:
        assert links.ask(0, 1) is None
        assert answer(links, 1) == echo(1)
        assert [each.seconds for each in opened._inside] == [2 * TIMEOUT]
    opened.close()


def test_what_came_by_a_link_cannot_be_written_to() -> None:
    opened = NeighbourDoor(lambda *question: packed_apart(question), "here")
    with linked(Finding(opened.address)) as links:
        assert links.ask(0, 1) is None
        asked = links.ask(0, np.arange(5), patience=TIMEOUT)
        assert asked is not None
        parts = asked.answer(TIMEOUT)
        assert parts is not None
        (found,) = unpacked_apart(parts)
        assert found.tolist() == [0, 1, 2, 3, 4] and not found.flags.writeable
    opened.close()


def test_the_socket_is_this_users_alone_and_goes_with_its_door(tmp_path: Path) -> None:
    with door() as opened:
        path = Path(opened.address.path)
        assert S_IMODE(path.stat().st_mode) == 0o600
        assert S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.parent.exists()
    opened.close()


def test_a_folder_whose_path_is_too_long_for_a_socket_is_not_used(tmp_path: Path) -> None:
    short, deep = tmp_path / "s", tmp_path / ("d" * 120)
    deep.mkdir()
    found = NeighbourDoor(lambda *question: [echo(*question)], "here", str(deep))
    try:
        assert not list(deep.iterdir())
        with linked(Finding(found.address)) as links:
            assert links.ask(0, 1) is None
            assert answer(links, 1) == echo(1)
    finally:
        found.close()
    missing = NeighbourDoor(lambda *question: [echo(*question)], "here", str(short))
    missing.close()
