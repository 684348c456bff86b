"""A publisher's client of the coordinators."""

from __future__ import annotations

import itertools
import os
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.transport.actor_handles import own_node
from actors.transport.calls import Deadline, answer, fetched, retried, stored
from actors.transport.dispatch import Call
from actors.transport.frames import Frame
from actors.transport.publish_reply import PublishReply, read_publish_reply
from actors.transport.published_events import PublishedEvents, PublishRequest, publish_frame
from actors.transport.sockets.client_pool import ClientPool
from actors.transport.sockets.connection import SocketAddress

__all__ = ["CoordinatorClient", "Publication"]

MOST_CONNECTIONS = 32
ADDRESS_TIMEOUT = 5.0
WHO = "the coordinator"


@dataclass(slots=True, eq=False)  # not frozen: to make one that is takes three times as long
class Publication:
    """The content of one request, which is repeated under the same idempotency key if necessary."""

    events: PublishedEvents
    key: str
    deliver: bool
    begun: float = field(default_factory=time.monotonic)
    """The time at which the publisher took these events, on its own clock."""


class CoordinatorClient:
    """Calls the coordinators in turn. Safe to use from several threads."""

    def __init__(self, coordinators: Sequence[Any]) -> None:
        self.coordinators = list(coordinators)
        self._turn = itertools.count(os.getpid())
        # The pool refers to the list and not to this object, so that the object is freed, and its connections closed, when it is no longer
        # used.
        self.pool = ClientPool("coordinator", partial(_address, self.coordinators), own_node(), MOST_CONNECTIONS)
        weakref.finalize(self, self.pool.close)

    def turn(self) -> int:
        return next(self._turn)

    def send(self, publication: Publication, deadline: Deadline) -> Call:
        number = next(self._turn) % len(self.coordinators)
        return Call(self.pool, number, _Publish(self, number, publication, deadline), deadline.left)

    def reply(self, call: Call, deadline: Deadline) -> PublishReply:
        """Returns the reply. Raises what the coordinator raised, or UnavailableError."""
        found = call.reply(deadline)
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, PublishReply)
        return found

    def names_of(self, lineage: str, codes: NDArray[np.int32], timeout: float) -> dict[int, str]:
        """Returns the names of subscribers, by code."""

        def call(left: float) -> dict[int, str]:
            names: dict[int, str] = answer(self.coordinators[0].names_of.remote(lineage, codes), WHO, left)
            return names

        return retried(call, Deadline(timeout))

    def close(self, handle: Any) -> None:
        """Replaces the handles by one that raises, so that every later use raises."""
        self.coordinators[:] = [handle] * len(self.coordinators)
        self.pool.close()


def _address(coordinators: list[Any], number: int) -> SocketAddress | None:
    address: SocketAddress | None = answer(coordinators[number].socket_address.remote(), WHO, ADDRESS_TIMEOUT)
    return address


@dataclass(slots=True, eq=False)
class _Publish:
    """A publication to one coordinator, over a socket or through Ray (`dispatch.RemoteRequest`)."""

    client: CoordinatorClient
    number: int
    publication: Publication
    deadline: Deadline
    who: str = WHO

    def _request(self) -> PublishRequest:
        sent = self.publication
        age = time.monotonic() - sent.begun
        return PublishRequest(sent.events, sent.deliver, sent.key, self.deadline.left, age)

    def frame(self) -> Frame:
        sent = self.publication
        return publish_frame(sent.events, sent.deliver, sent.key, self.deadline.left, time.monotonic() - sent.begun)

    def read(self, frame: Frame) -> PublishReply:
        return read_publish_reply(frame, len(self.publication.events), self.publication.events.batch.size)

    def is_current(self, reply: PublishReply) -> bool:
        return True  # a replaced coordinator knows it, and does not answer

    def call(self, again: bool) -> Any:
        coordinators = self.client.coordinators
        number = self.client.turn() % len(coordinators) if again else self.number
        publish = coordinators[
            number
        ].publish_prepared  # raises if this is closed: Ray would start a cluster to put something in
        shared = self.publication.events.shared
        if not shared.small:
            shared.store(stored)
        return publish.remote(self._request())

    def finish(self, reply: PublishReply) -> PublishReply:
        """Maps the reply's columns into this process before the result is passed on, because they live only as long as the coordinator."""
        reply.fetch(fetched)
        return reply
