"""To which coordinator a portion goes, which way, and how often; with coordinators that are only pretended."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import ray
from ray.exceptions import ObjectStoreFullError

from actors.client import publishing
from actors.client.preparing import prepare
from actors.client.publish_result import PublishResult
from actors.client.publishing import Publisher, PublishOptions
from actors.transport import dispatch
from actors.transport.calls import Deadline
from actors.transport.coordinator_client import Publication
from actors.transport.object_refs import SMALL_EVENTS
from actors.transport.publish_reply import PublishReply
from actors.transport.published_events import PublishRequest
from actors.transport.sockets.client_pool import ClientPool
from ray_pubsub.errors import OverloadedError, SettingError, UnavailableError
from ray_pubsub.model.arguments import check_key

TIMEOUT = 60.0


class Here:
    """What Ray knows of this process."""

    def get_node_id(self) -> str:
        return "here"


class Coordinator:
    """Its handle; keeps the requests that come through Ray, and answers them at once."""

    def __init__(self) -> None:
        self.requests: list[PublishRequest] = []
        self.errors: list[Exception] = []

    @property
    def publish_prepared(self) -> Coordinator:
        return self

    def remote(self, request: PublishRequest) -> Any:
        self.requests.append(request)
        return self.errors.pop() if self.errors else PublishReply(np.zeros(1, np.uint8), ("low",), [], "line")


class Pool:
    """Keeps which coordinator was tried over a socket; gives this for it."""

    def __init__(self, pending: Callable[[], Any]) -> None:
        self.numbers: list[int] = []
        self._pending = pending

    def send(self, number: int, request: Any, patience: float) -> Any:
        self.numbers.append(number)
        return self._pending()

    def close(self) -> None:
        pass


class Silent:
    """A request over a socket that gets no reply."""

    def reply(self, timeout: float, read: Any) -> None:
        return None

    def cancel(self) -> None:
        pass


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    monkeypatch.setattr(ray, "get_runtime_context", Here)
    monkeypatch.setattr(dispatch, "answers", lambda references, who, timeout: list(references))
    yield Publisher([Coordinator(), Coordinator()], TIMEOUT)


def with_pool(publisher: Publisher, pending: Callable[[], Any]) -> Pool:
    pool: Any = Pool(pending)
    publisher._client.pool = pool
    return pool  # type: ignore[no-any-return]


def requests(publisher: Publisher) -> list[list[PublishRequest]]:
    """What each coordinator got through Ray."""
    return [coordinator.requests for coordinator in publisher._client.coordinators]


def test_without_sockets_every_coordinator_gets_its_share(publisher: Publisher) -> None:
    pool = with_pool(publisher, lambda: None)
    for number in range(10):
        publisher.publish({"x": number}, PublishOptions(deliver=False))
    assert [len(each) for each in requests(publisher)] == [5, 5]
    assert sorted(pool.numbers) == [0] * 5 + [1] * 5


def test_a_socket_without_a_reply_is_followed_by_a_call_to_the_next_coordinator(publisher: Publisher) -> None:
    pool = with_pool(publisher, Silent)
    publisher.publish({"x": 1}, PublishOptions(idempotency_key="mine"))
    [(number, [request])] = [(number, each) for number, each in enumerate(requests(publisher)) if each]
    assert pool.numbers == [1 - number]
    assert (request.events.batch.size, request.deliver, request.key) == (1, True, "mine")
    assert 0 < request.timeout <= TIMEOUT


def test_a_publication_is_repeated_under_its_key(publisher: Publisher) -> None:
    with_pool(publisher, lambda: None)
    for coordinator in publisher._client.coordinators:
        coordinator.errors = [UnavailableError("the coordinator", "its process died", died=True)]
    publisher.publish({"x": 1}, PublishOptions(idempotency_key="mine"))
    assert [[request.key for request in each] for each in requests(publisher)] in (
        [["mine"] * 2, ["mine"]],
        [["mine"], ["mine"] * 2],
    )


def test_an_overloaded_server_is_asked_again_while_there_is_patience(publisher: Publisher) -> None:
    with_pool(publisher, lambda: None)

    def overload() -> None:
        for coordinator in publisher._client.coordinators:
            coordinator.errors = [OverloadedError("batches", 1, 0.001)]

    overload()
    with pytest.raises(OverloadedError):
        publisher.publish({"x": 1}, PublishOptions(deliver=False))
    overload()
    (found,) = publisher.publish_stream([[{"x": 1}]], PublishOptions(deliver=False), None, 1, TIMEOUT)
    assert isinstance(found, PublishResult)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_overload_in_the_middle_carries_what_was_done_and_the_key(
    publisher: Publisher, asynchronous: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said that nothing was done, although portions had been delivered."""
    monkeypatch.setattr(publishing, "PORTION", 1)
    monkeypatch.setattr(publishing, "MAX_IN_FLIGHT", 1)
    publisher = Publisher(publisher._client.coordinators[:1], TIMEOUT)
    with_pool(publisher, lambda: None)
    [coordinator] = publisher._client.coordinators

    def publish(events: Any, key: str | None) -> Any:
        if asynchronous:
            return asyncio.run(publisher.publish_async(events, PublishOptions(idempotency_key=key)))
        return publisher.publish(events, PublishOptions(idempotency_key=key))

    async def replied(reference: Any, who: str, timeout: float) -> Any:
        if isinstance(reference, Exception):
            raise reference
        return reference

    monkeypatch.setattr(dispatch, "answer_async", replied)
    events = [{"x": number} for number in range(4)]
    accepted = PublishReply(np.zeros(1, np.uint8), ("low",), [], "line")
    coordinator.errors = [OverloadedError("batches", 1, 0.001), accepted, accepted]
    with pytest.raises(OverloadedError, match="2 events or more of this publication are published") as caught:
        publish(events, None)
    assert caught.value.published == 2
    key = caught.value.idempotency_key
    assert key is not None and f"idempotency_key={key!r}" in str(caught.value)
    before = [request.key for request in coordinator.requests]
    coordinator.requests.clear()
    assert publish(events, key).idempotency_key == key
    assert [request.key for request in coordinator.requests][:3] == before  # so what was delivered is recognised
    coordinator.errors = [OverloadedError("batches", 1, 0.001)]
    with pytest.raises(OverloadedError) as refused:
        publish({"x": 1}, None)
    assert (refused.value.published, refused.value.idempotency_key) == (0, None)  # nothing was done


def test_a_full_object_store_is_an_error_of_ours(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was Ray's."""
    with_pool(publisher, lambda: None)

    def put(value: Any) -> Any:
        raise ObjectStoreFullError("no room\nwith advice on Ray's settings")

    monkeypatch.setattr(ray, "put", put)
    with pytest.raises(UnavailableError, match="the object store: no room"):
        publisher.publish([{"x": number} for number in range(SMALL_EVENTS + 1)], PublishOptions(deliver=False))
    assert requests(publisher) == [[], []]
    publisher.publish([{"x": 1}], PublishOptions(deliver=False))  # it needs no room there


def test_an_overload_after_a_crash_does_not_say_that_nothing_was_done(publisher: Publisher) -> None:
    with_pool(publisher, lambda: None)
    for coordinator in publisher._client.coordinators:
        coordinator.errors = [OverloadedError("batches", 1, 0.001)]
    publisher._client.coordinators[0].errors += [UnavailableError("the coordinator", "its process died", died=True)]
    publisher._client.coordinators[1].errors += [UnavailableError("the coordinator", "its process died", died=True)]
    with pytest.raises(OverloadedError) as caught:
        publisher.publish({"x": 1}, PublishOptions(idempotency_key="mine"))
    assert caught.value.idempotency_key == "mine"


def passed(seconds: float) -> Deadline:
    found = Deadline(seconds)
    found._ends = 0.0
    return found


def test_a_result_that_is_asked_for_late_is_still_there(publisher: Publisher) -> None:
    """A socket does not keep it; through Ray it is asked for again, under the same key."""
    with_pool(publisher, Silent)
    sent = publisher._send(Publication(prepare([{"x": 1}], None, "mine"), "mine", True), passed(TIMEOUT))
    assert isinstance(publisher._collect(sent, Deadline(0.0)), PublishResult)
    [request] = [request for each in requests(publisher) for request in each]
    assert request.key == "mine"


def test_one_that_was_waited_for_in_vain_is_not_asked_for_again(publisher: Publisher) -> None:
    deadline = Deadline(TIMEOUT)

    class SilentUntilTheEnd(Silent):
        def reply(self, timeout: float, read: Any) -> None:
            deadline._ends = 0.0

    with_pool(publisher, SilentUntilTheEnd)
    sent = publisher._send(Publication(prepare([{"x": 1}], None, "mine"), "mine", True), deadline)
    with pytest.raises(UnavailableError, match="did not answer within 60 s"):
        publisher._collect(sent, Deadline(0.0))
    assert requests(publisher) == [[], []]


def test_a_stream_that_is_left_cancels_what_is_in_flight(publisher: Publisher) -> None:
    cancelled = []

    class Cancelled(Silent):
        def cancel(self) -> None:
            cancelled.append(self)

    with_pool(publisher, Cancelled)
    stream = publisher.publish_stream(
        ([{"x": number}] for number in range(9)), PublishOptions(deliver=False), None, 3, TIMEOUT
    )
    next(iter(stream))
    stream.close()  # type: ignore[attr-defined]
    assert len(cancelled) == 2


def test_a_closed_publisher_meets_a_handle_that_says_so(publisher: Publisher) -> None:
    publisher.close("closed")
    assert publisher._client.coordinators == ["closed"] * 2


def test_in_another_process_it_has_connections_of_its_own(publisher: Publisher) -> None:
    found = pickle.loads(pickle.dumps(publisher))
    assert (len(found._client.coordinators), found._timeout) == (2, TIMEOUT)
    assert found._client.pool is not publisher._client.pool


def test_connections_are_closed_with_their_publisher(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    def close(pool: ClientPool) -> None:
        closed.append(pool)

    monkeypatch.setattr(ClientPool, "close", close)
    short_lived = Publisher([Coordinator()], TIMEOUT)
    pool = short_lived._client.pool
    del short_lived
    assert closed == [pool]


def test_the_keys_of_portions_are_no_keys_of_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a publication under the key day-1/1 would be taken for the second portion of day-1, and not delivered."""
    monkeypatch.setattr(publishing, "PORTION", 2)
    keys = [portion.key for portion in publishing._portions([{"x": 1}] * 5, PublishOptions(deliver=False), "day-1")]
    assert keys[0] == "day-1"
    assert len(set(keys)) == 3
    for key in keys[1:]:
        with pytest.raises(SettingError):
            check_key(key)
