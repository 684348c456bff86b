"""Requests to other actors: over a Unix socket if it answers, else through Ray. This is decided here and nowhere else.

A socket is quicker, and Ray knows more: which process is alive, where, and which instance of an actor is the current one. So whatever goes
wrong with a socket (no connection, silence, a reply that is not valid or of a replaced instance) ends in a call through Ray, and only what
comes of that counts. Every request may therefore arrive twice: matching changes nothing, and a publication has its idempotency key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from actors.transport.calls import Deadline, answers
from actors.transport.client_pool import ClientPool
from actors.transport.error_codec import error_frame, read_error
from actors.transport.frames import ERROR, REPLY, Frame, check, decoded
from ray_pubsub.errors import FencedError, RayPubSubError, UnavailableError

__all__ = ["Call", "RemoteRequest", "answering", "replies"]

Request = TypeVar("Request")


class RemoteRequest(Protocol):
    """One request to one actor, for both ways."""

    @property
    def who(self) -> str:
        """To whom it is sent, for errors."""

    def frame(self) -> Frame:
        """For the socket. May raise anything if no frame can carry the request."""

    def read(self, frame: Frame) -> Any:
        """The reply that came over the socket. May raise anything if the frame is not valid."""

    def is_current(self, reply: Any) -> bool:
        """Whether the reply of a socket is of an instance that was not replaced: one that was may live on at its old address."""

    def call(self, again: bool) -> Any:
        """Starts a call through Ray, and gives its reference. `again`: a socket was tried before, in vain."""

    def finish(self, reply: Any) -> Any:
        """The reply, or an exception, of what came through Ray."""


class Call:
    """A request on its way to actor `number`. Must be waited for (`replies`) or cancelled."""

    def __init__(self, pool: ClientPool, number: int, request: RemoteRequest, patience: float | None = None) -> None:
        """`patience`: seconds for the reply of a socket; None: the pool's."""
        self._pool, self._number, self.request = pool, number, request
        self._pending = pool.send(number, request.frame, patience)
        self.reference = None if self._pending is not None else request.call(again=False)

    def from_socket(self, deadline: Deadline) -> Any:
        """The reply, or the error with which the actor replied. None: `reference` is to be waited for; there was no socket, or it did not
        answer."""
        if self._pending is None:
            return None
        found = self._pending.reply(deadline.left, self._read)
        self._pending = None
        if isinstance(found, Exception):
            return found
        if found is not None:
            if self.request.is_current(found):
                return found
            self._pool.forget(self._number)
        if not deadline:
            return UnavailableError(self.request.who, f"did not answer within {deadline.seconds:.3g} s")
        self.reference = self.request.call(again=True)
        return None

    def _read(self, frame: Frame) -> Any:
        if frame.kind == ERROR:
            return read_error(frame)
        check(frame.kind == REPLY, "a frame that is no reply")
        return self.request.read(frame)

    def cancel(self) -> None:
        """The reply is not wanted any more. Does nothing when it has come."""
        if self._pending is not None:
            self._pending.cancel()


def replies(calls: Sequence[Call], deadline: Deadline) -> list[Any]:
    """What several requests came to: for each its reply, or its error."""
    try:
        found = [call.from_socket(deadline) for call in calls]
    finally:
        for call in calls:
            call.cancel()
    left = [place for place, reply in enumerate(found) if reply is None]
    references, who = [calls[place].reference for place in left], [calls[place].request.who for place in left]
    for place, reply in zip(left, answers(references, who, deadline.left), strict=True):
        found[place] = reply if isinstance(reply, Exception) else calls[place].request.finish(reply)
    return found


def answering(
    read: Callable[[Frame], Request], answer: Callable[[Request], Any], frame_of: Callable[[Any], Frame]
) -> Callable[[Frame], Frame]:
    """The other end: what a UnixServer calls with a request's frame. Errors of the request itself are replied; those that another instance
    might not have are not, so that the caller asks again through Ray."""

    def answered(frame: Frame) -> Frame:
        request = decoded(read, frame)
        try:
            return frame_of(answer(request))
        except (FencedError, UnavailableError):
            raise
        except RayPubSubError as error:
            found = error_frame(error)
            if found is None:
                raise
            return found

    return answered
