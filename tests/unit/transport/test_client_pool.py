"""Connections between processes of one node, here between threads: which requests are answered, and when the caller falls back to Ray."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.transport.frames import REPLY, Frame
from actors.transport.sockets import client_pool
from actors.transport.sockets.connection import Connection, SocketAddress
from actors.transport.sockets.unix_server import UnixServer
from ray_pubsub.errors import UnavailableError
from tests.unit.transport.socket_ends import TIMEOUT, Finding, answer, ask, content, frame, pooled, serving


def test_the_first_request_finds_no_connection_and_the_next_one_does() -> None:
    with serving() as server, pooled(Finding(server.address)) as pool:
        assert ask(pool, 1) is None
        assert answer(pool, [{"x": 1}], "lineage", 7) == [[{"x": 1}], "lineage", 7]
        assert answer(pool, b"x" * 500_000) == [b"x" * 500_000]
        assert pool.answered == 2


def test_several_shards_are_asked_before_the_first_is_waited_for() -> None:
    both = threading.Barrier(2)

    def when_both_are_asked(question: str) -> str:
        both.wait(TIMEOUT)
        return question

    with (
        serving(when_both_are_asked) as one,
        serving(when_both_are_asked, role="shard-1") as two,
        pooled(Finding(one.address, two.address)) as pool,
    ):
        assert [ask(pool, "", shard=shard) for shard in (0, 1)] == [None, None]
        pending = [ask(pool, f"to {shard}", shard=shard) for shard in (0, 1)]
        assert [content(each) for each in pending] == ["to 0", "to 1"]


def test_columns_arrive_as_they_were_and_cannot_be_written_to() -> None:
    columns: list[Any] = [np.arange(1_000_000), np.arange(3, dtype=np.int32), np.ones(12, np.float32)]
    server = UnixServer(lambda request: Frame(REPLY, request.header, request.columns), "here", "shard-0")
    with pooled(Finding(server.address), most=1) as pool:
        assert ask(pool, 1) is None
        request = frame("large", columns=tuple(column.data.cast("B") for column in columns))
        for _ in range(3):
            pending = pool.send(0, lambda: request, TIMEOUT)
            assert pending is not None
            found = pending.reply(TIMEOUT, lambda reply: reply.columns)
            assert found is not None
            for one, two in zip(columns, found, strict=True):
                assert (two.view(one.dtype) == one).all() and not two.flags.writeable
    server.close()


def test_many_threads_get_their_own_replies_over_no_more_connections_than_allowed() -> None:
    with serving() as server, pooled(Finding(server.address), most=3) as pool:

        def asked(number: int) -> bool:
            """Whether there was a connection for it."""
            found = answer(pool, number)
            assert found in (None, [number])
            return found is not None

        assert not asked(0)  # there is a connection now: else all might have asked before one was made
        with ThreadPoolExecutor(16) as threads:
            answered = sum(threads.map(asked, range(2000)))
        assert pool.answered == answered > 0
        assert 1 <= len(server._connections) <= 3


def test_whatever_a_shard_raises_is_no_reply() -> None:
    def raising(error: str | None) -> str:
        if error is not None:
            raise UnavailableError("shard 0", error) if error == "loading" else KeyError(error)
        return "fine"

    with serving(raising) as server, pooled(find := Finding(server.address)) as pool:
        assert ask(pool, None) is None
        assert answer(pool, "loading") is None
        assert ask(pool, None) is None  # the process there may have been replaced: its address is asked for again
        assert find.asked == 2
        assert answer(pool, "x") is None
        assert ask(pool, None) is None
        assert answer(pool, None) == "fine"


def test_a_request_that_no_frame_can_carry_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_pool, "LARGEST_REQUEST", 1000)
    with serving() as server, pooled(Finding(server.address)) as pool:
        assert ask(pool, 1) is None
        assert ask(pool, lambda: None) is None
        assert ask(pool, b"x" * 1001) is None
        assert pool.send(0, lambda: frame(1, columns=(b"x" * 1001,))) is None
        monkeypatch.setattr(client_pool, "MOST_COLUMNS", 3)
        assert pool.send(0, lambda: frame(1, columns=(b"x",) * 4)) is None
        assert answer(pool, 1) == [1]  # the connection is as good as before


def test_a_shard_that_dies_is_no_reply_and_its_successor_is_found() -> None:
    dying = threading.Event()

    def dead(*_: Any) -> str:
        dying.set()
        first.close()
        return "from the grave"

    with serving(dead) as first, serving() as second, pooled(find := Finding(first.address)) as pool:
        assert ask(pool, 1) is None
        assert answer(pool, 1) is None
        assert dying.is_set()
        assert ask(pool, 1) is None  # nobody is at the old address
        find.addresses[0] = second.address
        assert ask(pool, 1) is None
        assert answer(pool, 1) == [1]


def test_a_connection_that_broke_while_it_was_idle() -> None:
    with serving() as first, pooled(find := Finding(first.address)) as pool:
        assert ask(pool, 1) is None
        first.close()
        with serving() as second:
            find.addresses[0] = second.address
            assert answer(pool, 1) is None
            assert ask(pool, 1) is None
            assert answer(pool, 1) == [1]


def test_a_late_reply_is_not_taken_for_the_next_one() -> None:
    go_on = threading.Event()

    def slow(question: str) -> str:
        if question == "slow":
            assert go_on.wait(TIMEOUT)
        return question

    with serving(slow) as server, pooled(Finding(server.address)) as pool:
        assert ask(pool, "") is None
        assert answer(pool, "slow", timeout=0.001) is None
        go_on.set()
        assert ask(pool, "") is None
        assert [answer(pool, f"{number}") for number in range(3)] == ["0", "1", "2"]


def test_a_socket_has_less_patience_than_its_caller() -> None:
    go_on = threading.Event()
    with serving(lambda: go_on.wait(TIMEOUT)) as server, pooled(Finding(server.address), patience=0.05) as pool:
        assert ask(pool) is None
        assert answer(pool) is None
        go_on.set()


def test_a_cancelled_request_takes_its_connection_with_it() -> None:
    with serving() as server, pooled(Finding(server.address)) as pool:
        assert ask(pool, 1) is None
        pending = ask(pool, 1)
        assert pending is not None
        pending.cancel()
        pending.cancel()
        assert ask(pool, 2) is None
        assert answer(pool, 3) == [3]


def test_a_cancelled_request_leaves_other_connections_as_they_are() -> None:
    with serving() as server, pooled(find := Finding(server.address)) as pool:
        assert ask(pool, 1) is None
        first = ask(pool, 1)
        assert ask(pool, 2) is None
        assert answer(pool, 3) == [3]
        assert first is not None
        first.cancel()
        assert answer(pool, 4) == [4]
        assert find.asked == 1


def test_an_interrupted_caller_gives_the_connection_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with serving() as server, pooled(Finding(server.address), most=1) as pool:
        assert ask(pool, 1) is None
        pending = ask(pool, 1)
        assert pending is not None
        with monkeypatch.context() as patched:
            patched.setattr(Connection, "receive", interrupted)
            with pytest.raises(KeyboardInterrupt):
                content(pending)
        assert content(pending) is None
        assert ask(pool, 2) is None  # of one that is allowed, one is made
        with monkeypatch.context() as patched:
            patched.setattr(Connection, "send", interrupted)
            with pytest.raises(KeyboardInterrupt):
                ask(pool, 3)
        assert ask(pool, 4) is None
        assert answer(pool, 5) == [5]


def test_a_reply_that_is_not_valid_closes_its_connection() -> None:
    def invalid(_: Frame) -> None:
        raise IndexError

    with serving() as server, pooled(find := Finding(server.address)) as pool:
        assert ask(pool, 1) is None
        pending = ask(pool, 1)
        assert pending is not None and pending.reply(TIMEOUT, invalid) is None
        assert (ask(pool, 2), find.asked, pool.answered) == (None, 2, 0)
        assert answer(pool, 3) == [3]


def test_a_process_that_was_forked_off_reads_no_replies_of_its_parent() -> None:
    with serving() as server, pooled(Finding(server.address)) as pool:
        assert ask(pool, 1) is None
        assert answer(pool, 1) == [1]
        pending = ask(pool, 2)
        assert pending is not None and ask(pool, 3) is None
        child = os.fork()
        if child == 0:
            wrong = 1
            try:
                found = [content(pending), ask(pool, 4), ask(pool, 5)]
                pending.cancel()
                pool.close()
                server.close()
                wrong = int(found != [None] * 3)
            finally:
                os._exit(wrong)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert content(pending) == [2]
        assert [answer(pool, number) for number in range(6, 10)] == [[number] for number in range(6, 10)]
        assert Path(server.address.path).exists()


def test_connections_in_use_when_their_shard_is_forgotten_are_not_used_again() -> None:
    with serving() as first, serving() as second, pooled(find := Finding(first.address)) as pool:
        assert ask(pool, 1) is None
        pending = ask(pool, 1)
        assert pending is not None
        pool.forget(0)
        find.addresses[0] = second.address
        assert content(pending) == [1]
        assert ask(pool, 1) is None
        assert answer(pool, 2) == [2]
        assert len(second._connections) == 1


def test_a_shard_elsewhere_or_without_a_socket_is_not_asked_for_its_address_again_soon() -> None:
    with serving(node="elsewhere") as server, pooled(find := Finding(server.address, None)) as pool:
        assert [ask(pool, 1, shard=shard) for shard in (0, 1, 0, 1)] == [None] * 4
        assert find.asked == 2


def test_a_shard_that_does_not_give_its_address_is_left_alone_for_a_while() -> None:
    asked = []

    def away(shard: int) -> SocketAddress | None:
        asked.append(shard)
        raise UnavailableError("shard 0", "is away")

    with pooled(away, pause=TIMEOUT) as pool:
        assert [ask(pool, 1) for _ in range(3)] == [None] * 3
        assert asked == [0]


def test_no_request_waits_for_an_address() -> None:
    found, connected = threading.Event(), threading.Event()
    with serving() as server:

        def find(_: int) -> SocketAddress:
            assert found.wait(TIMEOUT)
            return server.address

        def in_background(task: Callable[[], None]) -> None:
            threading.Thread(target=lambda: (task(), connected.set()), daemon=True).start()

        with pooled(find, run_in_background=in_background) as pool:
            assert [ask(pool, 1) for _ in range(3)] == [None] * 3
            found.set()
            assert connected.wait(TIMEOUT)
            assert answer(pool, 1) == [1]


def test_a_closed_pool_sends_nothing() -> None:
    with serving() as server, pooled(find := Finding(server.address)) as pool:
        assert ask(pool, 1) is None
        pending = ask(pool, 1)
        assert pending is not None
        pool.close()
        assert content(pending) == [1]
        assert ask(pool, 1) is None
        assert find.asked == 1
