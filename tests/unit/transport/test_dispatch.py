"""Over a socket if it answers, else through Ray: who is asked which way, and what counts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from actors.transport import dispatch
from actors.transport.calls import Deadline
from actors.transport.dispatch import Call, answering, replies
from actors.transport.frames import MATCH, REPLY, Frame, ProtocolError, packed, unpacked
from actors.transport.shard_client import InstanceEpochs
from actors.transport.sockets.client_pool import ClientPool
from actors.transport.sockets.unix_server import UnixServer
from ray_pubsub.errors import FencedError, OverloadedError, RayPubSubError, SettingError, UnavailableError
from tests.unit.transport.socket_ends import TIMEOUT, Finding, pooled


class Asking:
    """A request for its own text: the socket's reply says by which way it came, and so does Ray's."""

    def __init__(self, text: str = "x", current: bool = True) -> None:
        self.text, self.current = text, current
        self.who = "shard 0"
        self.calls: list[bool] = []

    def frame(self) -> Frame:
        return Frame(MATCH, packed([self.text]))

    def read(self, frame: Frame) -> Any:
        return unpacked(frame.header)[0]

    def is_current(self, reply: Any) -> bool:
        return self.current

    def call(self, again: bool) -> Any:
        self.calls.append(again)
        return f"{self.text} by Ray"

    def finish(self, reply: Any) -> Any:
        return f"{reply}!"


@pytest.fixture(autouse=True)
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference is what it stands for."""

    async def itself(reference: Any, who: str, timeout: float) -> Any:
        return reference

    monkeypatch.setattr(dispatch, "answers", lambda references, who, timeout: list(references))
    monkeypatch.setattr(dispatch, "answer_async", itself)


@pytest.fixture(autouse=True, params=["by a thread", "by asyncio"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WAY, "asyncio", request.param == "by asyncio")


WAY = {"asyncio": False}
"""How `asked` waits for the reply."""


def by_socket(text: str) -> str:
    return f"{text} by socket"


@contextmanager
def shard(answer: Callable[[str], Any]) -> Iterator[ClientPool]:
    """A pool that is connected to a server of these replies."""
    read = lambda frame: str(unpacked(frame.header)[0])  # noqa: E731
    server = UnixServer(answering(read, answer, lambda reply: Frame(REPLY, packed([reply]))), "here", "shard-0")
    with pooled(Finding(server.address)) as pool:
        assert pool.send(0, Asking().frame) is None
        yield pool
    server.close()


def asked(pool: ClientPool, request: Asking, deadline: Deadline | None = None) -> Any:
    deadline = Deadline(TIMEOUT) if deadline is None else deadline
    if WAY["asyncio"]:
        return asyncio.run(Call(pool, 0, request).reply_async(deadline))
    (found,) = replies([Call(pool, 0, request)], deadline)
    return found


def test_a_socket_that_answers_is_enough() -> None:
    with shard(by_socket) as pool:
        request = Asking()
        assert (asked(pool, request), request.calls) == ("x by socket", [])


def test_without_a_connection_ray_is_asked_at_once() -> None:
    with pooled(Finding(None)) as pool:
        request = Asking()
        assert (asked(pool, request), request.calls) == ("x by Ray!", [False])


def test_several_requests_go_each_its_own_way() -> None:
    with shard(by_socket) as pool:
        calls = [Call(pool, 0, Asking("one")), Call(pool, 0, Asking("two"))]  # of one idle connection
        assert replies(calls, Deadline(TIMEOUT)) == ["one by socket", "two by Ray!"]


@pytest.mark.parametrize("error", [UnavailableError("shard 0", "is loading"), FencedError("shard 0", 1, 2), KeyError()])
def test_what_another_instance_might_not_say_is_asked_again_through_ray(error: Exception) -> None:
    def raising(_: str) -> str:
        raise error

    with shard(raising) as pool:
        request = Asking()
        assert (asked(pool, request), request.calls) == ("x by Ray!", [True])


@pytest.mark.parametrize("error", [OverloadedError("batches", 7, 0.25), SettingError("idempotency_key", "is none")])
def test_what_is_wrong_with_the_request_comes_over_the_socket(error: RayPubSubError) -> None:
    def raising(_: str) -> str:
        raise error

    with shard(raising) as pool:
        request = Asking()
        found = asked(pool, request)
        assert (type(found), str(found), found.__dict__) == (type(error), str(error), error.__dict__)
        assert request.calls == []
        assert str(asked(pool, request)) == str(error)  # over the same connection


def test_a_socket_that_is_silent_until_the_deadline_is_not_followed_by_a_call() -> None:
    go_on = threading.Event()
    with shard(lambda text: str(go_on.wait(TIMEOUT))) as pool:
        request = Asking()
        found = asked(pool, request, Deadline(0.01))
        assert isinstance(found, UnavailableError) and "within 0.01 s" in str(found)
        assert request.calls == []
        go_on.set()


def test_a_reply_of_a_replaced_instance_does_not_count_and_its_address_is_forgotten() -> None:
    with shard(by_socket) as pool:
        request = Asking(current=False)
        assert (asked(pool, request), request.calls) == ("x by Ray!", [True])
        assert asked(pool, Asking()) == "x by Ray!"  # there is no connection to the old address any more


def test_a_reply_that_is_not_valid_does_not_count() -> None:
    class Misreading(Asking):
        def read(self, frame: Frame) -> Any:
            raise IndexError

    with shard(by_socket) as pool:
        request = Misreading()
        assert (asked(pool, request), request.calls) == ("x by Ray!", [True])


def test_an_interrupted_caller_cancels_what_is_in_flight() -> None:
    class Interrupted(Asking):
        def is_current(self, reply: Any) -> bool:
            raise KeyboardInterrupt

    with shard(by_socket) as pool:
        calls = [Call(pool, 0, Interrupted())]
        assert pool.send(0, Asking().frame) is None  # a second connection
        calls.append(Call(pool, 0, Asking()))
        with pytest.raises(KeyboardInterrupt):
            replies(calls, Deadline(TIMEOUT))
        assert calls[1]._pending is not None and calls[1]._pending._pooled is None


async def test_a_cancelled_caller_takes_no_connection_with_it() -> None:
    go_on = threading.Event()
    with shard(lambda text: str(go_on.wait(TIMEOUT))) as pool:
        call = Call(pool, 0, Asking())
        waiting = asyncio.create_task(call.reply_async(Deadline(TIMEOUT)))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert waiting.cancelled() and call._pending is not None and call._pending._pooled is None
        go_on.set()


def test_a_request_that_is_not_valid_is_not_answered() -> None:
    with pytest.raises(ProtocolError):
        answering(lambda frame: unpacked(frame.header), str, str)(Frame(MATCH, b"\xc1"))  # type: ignore[arg-type]


def test_an_epoch_is_current_until_a_later_one_has_replied() -> None:
    epochs = InstanceEpochs()
    assert [epochs.is_current("line", 0, epoch) for epoch in (1, 1, 3, 2, 3)] == [True, True, True, False, True]
    assert epochs.is_current("line", 1, 1)  # of another shard
    assert epochs.is_current("another line", 0, 1)  # a registry that kept nothing counts from 1 again
