"""Which way a portion goes: by a link or through Ray, to which coordinator; and what if a link has no answer, or an error."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from actors import publishing
from actors.calls import Deadline
from actors.coordinator import Coordinator as PlainCoordinator
from actors.neighbour_links import Asked
from actors.packing import packed, unpacked_apart
from actors.publish_result import PublishResult
from actors.publishing import Portion, Publisher, Sent
from ray_pubsub.errors import FencedError, OverloadedError, RayPubSubError, SettingError, UnavailableError

TIMEOUT = 60.0
RESULT = packed(PublishResult(np.array([1]), np.zeros(1, np.uint8), ("low",), []))


class Here:
    """What Ray knows of this process."""

    def get_node_id(self) -> str:
        return "here"


class Coordinator:
    """Its handle; notes the packed publications that come through Ray, which it answers at once."""

    def __init__(self) -> None:
        self.called: list[bytes] = []

    @property
    def publish_few(self) -> Coordinator:
        return self

    def remote(self, publication: bytes) -> bytes:
        self.called.append(publication)
        return RESULT


class Broken(Asked):
    """A link that has no answer."""

    def __init__(self) -> None:
        pass

    def answer(self, timeout: float) -> list[Any] | None:
        return None

    def give_up(self) -> None:
        pass


class Links:
    """Notes which coordinator is asked; has this for it."""

    def __init__(self, asked: Callable[[], Asked | None]) -> None:
        self.numbers: list[int] = []
        self._asked = asked

    def ask(self, number: int, *question: Any, patience: float) -> Asked | None:
        self.numbers.append(number)
        return self._asked()

    def close(self) -> None:
        pass


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    monkeypatch.setattr(publishing.ray, "get_runtime_context", Here)
    monkeypatch.setattr(publishing, "answer", lambda reference, who, timeout: reference)
    yield Publisher([Coordinator(), Coordinator()], TIMEOUT)


def with_links(publisher: Publisher, asked: Callable[[], Asked | None]) -> Links:
    links: Any = Links(asked)
    publisher._neighbours = links
    return links  # type: ignore[no-any-return]


def called(publisher: Publisher) -> list[list[Any]]:
    """The publications that each coordinator got through Ray."""
    return [[pickle.loads(each) for each in coordinator.called] for coordinator in publisher._coordinators]


def test_without_links_every_coordinator_gets_its_share(publisher: Publisher) -> None:
    links = with_links(publisher, lambda: None)
    for number in range(10):
        publisher.publish({"x": number}, None, False, None, None)
    assert [len(each) for each in called(publisher)] == [5, 5]
    assert sorted(links.numbers) == [0] * 5 + [1] * 5


def test_a_link_without_an_answer_is_made_good_by_ray_under_the_same_name(publisher: Publisher) -> None:
    with_links(publisher, Broken)
    publisher.publish({"x": 1}, None, True, "mine", None)
    [(events, _, deliver, request, left)] = [each for calls in called(publisher) for each in calls]
    assert (events, deliver, request) == ([{"x": 1}], True, "mine") and 0 < left <= TIMEOUT


def test_a_result_that_was_looked_for_too_late_is_asked_for_again(publisher: Publisher) -> None:
    """A link keeps it for a while only; with Ray it would still be there."""
    passed = Deadline(TIMEOUT)
    passed._ends = 0.0
    sent = Sent(Portion([{"x": 1}], "mine", None), Broken(), passed)
    assert isinstance(publisher._collect(sent, True, Deadline(0.0)), PublishResult)
    [(*_, request, left)] = [each for calls in called(publisher) for each in calls]
    assert request == "mine" and 0 < left <= TIMEOUT


def test_one_that_was_waited_for_in_vain_is_not(publisher: Publisher) -> None:
    deadline = Deadline(TIMEOUT)

    class Silent(Broken):
        def answer(self, timeout: float) -> list[Any] | None:
            deadline._ends = 0.0
            return None

    with pytest.raises(UnavailableError, match="did not answer within 60 s"):
        publisher._collect(Sent(Portion([{"x": 1}], "mine", None), Silent(), deadline), True, Deadline(0.0))
    assert called(publisher) == [[], []]


def test_closed_it_has_a_handle_that_says_so_for_every_coordinator(publisher: Publisher) -> None:
    before = len(publisher._coordinators)
    publisher.close("closed")
    assert publisher._coordinators == ["closed"] * before


def test_in_another_process_it_has_links_of_its_own(publisher: Publisher) -> None:
    found = pickle.loads(pickle.dumps(publisher))
    assert (len(found._coordinators), found._timeout) == (2, TIMEOUT)
    assert found._neighbours is not publisher._neighbours


class Raising(PlainCoordinator):
    def __init__(self, error: RayPubSubError) -> None:
        self._error = error

    def publish(self, *_: Any) -> Any:
        raise self._error


@pytest.mark.parametrize("error", [OverloadedError("batches", 7, 0.25), SettingError("request", "is none")])
def test_what_a_coordinator_says_of_the_publication_comes_by_the_link(error: RayPubSubError) -> None:
    found = unpacked_apart(Raising(error).publish_for_neighbour(packed(())))
    assert type(found) is type(error) and str(found) == str(error) and found.__dict__ == error.__dict__


@pytest.mark.parametrize("error", [FencedError("coordinator 0", 1, 2), UnavailableError("shard 0", "is away")])
def test_what_another_instance_might_not_say_is_no_answer(error: RayPubSubError) -> None:
    with pytest.raises(type(error)):
        Raising(error).publish_for_neighbour(packed(()))
