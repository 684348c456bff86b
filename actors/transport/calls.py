"""Calls through Ray: every wait has a deadline, and an actor's error is raised here as the library's own."""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import ray
from ray.exceptions import (
    ActorDiedError,
    ActorUnschedulableError,
    GetTimeoutError,
    RayActorError,
    RayError,
    RayTaskError,
)

from actors.cluster.ray_internals import server_of_ended_actor
from actors.transport.object_refs import StoredRef
from ray_pubsub.errors import RayPubSubError, SettingError, UnavailableError

__all__ = ["Deadline", "answer", "answer_async", "answers", "fetched", "retried", "sent", "stored"]

Result = TypeVar("Result")

PAUSE, LONGEST_PAUSE = 0.02, 0.5
FETCH_TIMEOUT = 30.0
SHORTEST_NAMED = 0.1
START_AGAIN = (
    "start() it again with its data_dir; if that is lost too, with restore= and a copy that backup() made. A server with store= survives "
    "the loss of a machine"
)


class Deadline:
    """The point in time at which a wait ends."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends = time.monotonic() + seconds

    @property
    def left(self) -> float:
        left = self._ends - time.monotonic()
        return left if left > 0 else 0.0

    def __bool__(self) -> bool:
        """Whether there is time left."""
        return self.left > 0


def sent(method: Any, *arguments: Any) -> Any:
    """Calls a method of an actor and returns the reference to its reply. Raises SettingError if an argument cannot be sent to another
    process, for example because it is nested thousands of levels deep or holds an open file."""
    try:
        return method.remote(*arguments)
    except (pickle.PicklingError, RecursionError, TypeError, AttributeError) as error:
        reason = str(error).strip().rpartition("\n")[2] or type(error).__name__
        raise SettingError("an argument", f"cannot be sent to the server: {reason}") from error


def answer(reference: Any, who: str, timeout: float, waited: float = 0) -> Any:
    """Returns the reply to a call. Raises what the actor raised, or UnavailableError, after which it is not known whether the call was
    executed. `waited` is the number of seconds that the caller has waited before, for the error's text."""
    try:
        return ray.get(reference, timeout=timeout)
    except RayError as error:
        _reraise(error, who, waited + timeout)


def fetched(stored: StoredRef) -> Any:
    """Returns an object from the object store. Raises UnavailableError if it is lost because the process that owned it has died."""
    return answer(stored.reference, "the object store", FETCH_TIMEOUT)


def stored(value: Any) -> Any:
    """Puts a large argument into the object store and returns its reference. Raises UnavailableError if there is no room, neither in
    shared memory nor on the disk to which Ray moves objects."""
    try:
        return ray.put(value)
    except RayError as error:
        _reraise(error, "the object store", 0)


def answers(references: Sequence[Any], who: Sequence[str], timeout: float) -> list[Any | Exception]:
    """Returns the replies to several calls: for each its result, or its error."""
    if not references:
        return []  # without this Ray would look for a cluster, or start one
    deadline = Deadline(timeout)
    try:
        return list(ray.get(list(references), timeout=timeout))  # a single wait suffices if no call fails
    except RayError:
        pass
    ray.wait(list(references), num_returns=len(references), timeout=deadline.left)
    found: list[Any | Exception] = []
    for reference, name in zip(references, who, strict=True):
        try:
            found.append(answer(reference, name, 0, waited=timeout))
        except Exception as error:
            found.append(error)
    return found


def retried(call: Callable[[float], Result], deadline: Deadline) -> Result:
    """Returns the result of `call`, which is repeated while the actor is unavailable and there is time. `call` gets the seconds it may
    wait."""
    pause = PAUSE
    while True:
        try:
            return call(deadline.left)
        except UnavailableError as error:
            if error.gone or deadline.left <= pause:
                raise
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _reraise(error: RayError, who: str, timeout: float) -> NoReturn:
    if isinstance(error, RayTaskError):
        cause = error.cause
        if isinstance(cause, RayPubSubError):
            raise cause from None
        if isinstance(cause, RayError):  # the error of a call that the actor itself made
            _reraise(cause, who, timeout)
        raise error
    if isinstance(error, GetTimeoutError):
        raise UnavailableError(who, _late(timeout)) from None
    if isinstance(error, RayActorError):
        # Ray may raise the same error for a process that is being restarted and for one that never will be.
        ended = server_of_ended_actor(error.actor_id) if isinstance(error, ActorDiedError) else None
        if ended is not None:
            reason = f"the server {ended!r} runs no more: it was stopped, or its machine is lost. {START_AGAIN}"
            raise UnavailableError(who, reason, died=True, gone=True) from None
        raise UnavailableError(who, "its process died or is restarting", died=True) from None
    if isinstance(error, ActorUnschedulableError):  # final: an actor with files may be on their node only
        reason = f"the machine that has the server's data_dir is lost, so Ray does not restart it. {START_AGAIN}"
        raise UnavailableError(who, reason, died=True, gone=True) from None
    raise UnavailableError(who, str(error).partition("\n")[0]) from error


def _late(timeout: float) -> str:
    """Words a timeout for an error. The last of several attempts may have had no time at all, and is not given in seconds."""
    return f"did not answer within {timeout:.3g} s" if timeout >= SHORTEST_NAMED else "did not answer in time"


async def answer_async(reference: Any, who: str, timeout: float) -> Any:
    """Does the same as `answer`, without holding a thread."""
    try:
        # wait_for is not used: before Python 3.12 it loses a cancellation that comes together with the reply, and the task would go on for
        # ever.
        async with asyncio.timeout(timeout):
            return await reference
    except TimeoutError:
        raise UnavailableError(who, _late(timeout)) from None
    except RayError as error:
        _reraise(error, who, timeout)
