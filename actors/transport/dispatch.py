"""Sends requests to other actors: over a Unix socket if it answers, otherwise through Ray. This is decided here and nowhere else.

A socket is faster, but Ray knows which process is alive, where, and which instance of an actor is the current one. So whatever goes wrong
with a socket (no connection, silence, a reply that is not valid or comes from a replaced instance) leads to a call through Ray, and only
the outcome of that call counts. Every request may therefore arrive twice: matching changes nothing, and a publication has its idempotency
key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from actors.transport.calls import Deadline, answer_async, answers
from actors.transport.error_codec import error_frame, read_error
from actors.transport.frames import ERROR, REPLY, Frame, ProtocolError, decoded
from actors.transport.sockets.client_pool import ClientPool
from ray_pubsub.errors import FencedError, RayPubSubError, UnavailableError

__all__ = ["Call", "RemoteRequest", "answering", "replies"]

Request = TypeVar("Request")


class RemoteRequest(Protocol):
    """One request to one actor, which can go over a socket or through Ray."""

    @property
    def who(self) -> str:
        """The receiver's name, for errors."""

    def frame(self) -> Frame:
        """Returns the request for the socket. May raise anything if no frame can carry it."""

    def read(self, frame: Frame) -> Any:
        """Reads the reply that came over the socket. May raise anything if the frame is not valid."""

    def is_current(self, reply: Any) -> bool:
        """Returns whether a socket's reply comes from the current instance. A replaced instance may live on at its old address."""

    def call(self, again: bool) -> Any:
        """Starts a call through Ray and returns its reference. `again`: a socket was tried before, without success."""

    def finish(self, reply: Any) -> Any:
        """Returns the final reply, or an exception, for a reply that came through Ray."""


class Call:
    """A request that is in flight to actor `number`. It must be waited for (`replies`) or cancelled."""

    def __init__(self, pool: ClientPool, number: int, request: RemoteRequest, patience: float | None = None) -> None:
        """`patience` is the number of seconds to wait for the reply of a socket; None means the pool's."""
        self._pool, self._number, self.request = pool, number, request
        self._pending = pool.send(number, request.frame, patience)
        self.reference = None if self._pending is not None else request.call(again=False)

    def from_socket(self, deadline: Deadline) -> Any:
        """Returns the reply, or the error with which the actor replied. Returns None if there was no socket or it did not answer;
        `reference` must then be waited for."""
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

    def reply(self, deadline: Deadline) -> Any:
        """Returns the reply, or its error, as `replies` does."""
        try:
            found = self.from_socket(deadline)
        finally:
            self.cancel()
        if found is not None:
            return found
        (found,) = answers([self.reference], [self.request.who], deadline.left)
        return found if isinstance(found, Exception) else self.request.finish(found)

    async def reply_async(self, deadline: Deadline) -> Any:
        """Returns the reply, or its error, as `replies` does, without holding a thread while it waits. A call of Ray takes longer than a
        socket, and so does handing the request to a thread and back. A reply that has begun is read at once."""
        found = None
        try:
            if self._pending is not None:
                begun = self._pending.until_readable(deadline.left)
                if begun is not None:
                    await begun
                found = self.from_socket(deadline)
        finally:
            self.cancel()
        if found is not None:
            return found
        try:
            return self.request.finish(await answer_async(self.reference, self.request.who, deadline.left))
        except Exception as error:
            return error

    def _read(self, frame: Frame) -> Any:
        if frame.kind == ERROR:
            return read_error(frame)
        if frame.kind != REPLY:
            raise ProtocolError("a frame that is no reply")
        return self.request.read(frame)

    def cancel(self) -> None:
        """Gives up the reply. Does nothing if it has come."""
        if self._pending is not None:
            self._pending.cancel()


def replies(calls: Sequence[Call], deadline: Deadline) -> list[Any]:
    """Waits for several requests. Returns for each its reply, or its error."""
    try:
        found = [call.from_socket(deadline) for call in calls]
    finally:
        for call in calls:
            call.cancel()
    left = [place for place, reply in enumerate(found) if reply is None]
    if not left:
        return found
    references, who = [calls[place].reference for place in left], [calls[place].request.who for place in left]
    for place, reply in zip(left, answers(references, who, deadline.left), strict=True):
        found[place] = reply if isinstance(reply, Exception) else calls[place].request.finish(reply)
    return found


def answering(
    read: Callable[[Frame], Request], answer: Callable[[Request], Any], frame_of: Callable[[Any], Frame]
) -> Callable[[Frame], Frame]:
    """Returns the function that a UnixServer calls with a request's frame. Errors of the request itself are sent as the reply. Errors
    that another instance might not have are raised, so that the caller asks again through Ray."""

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
