"""Calls between processes: every wait has a deadline, and what comes back raised is our own error again.

The only module besides `remote.py` and `cluster.py` that the actors' classes know Ray by.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import ray
from ray.exceptions import ActorDiedError, GetTimeoutError, RayActorError, RayError, RayTaskError

from actors.ray_internals import server_of_ended_actor
from actors.stored_batch import Stored
from ray_pubsub.errors import RayPubSubError, UnavailableError

__all__ = ["Deadline", "answer", "answer_async", "answers", "fetched", "retried"]

Result = TypeVar("Result")

PAUSE, LONGEST_PAUSE = 0.02, 0.5
FETCH_TIMEOUT = 30.0


class Deadline:
    """A point in time until which is waited."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return max(0.0, self._ends - time.monotonic())

    def __bool__(self) -> bool:
        """Whether there is time left."""
        return self.left > 0


def answer(reference: Any, who: str, timeout: float) -> Any:
    """What a call gave. Raises what the actor raised, or UnavailableError: whether it was done is not known then."""
    try:
        return ray.get(reference, timeout=timeout)
    except RayError as error:
        _reraise(error, who, timeout)


def fetched(stored: Stored) -> Any:
    """What is in the object store. Raises UnavailableError if it is lost: whoever put it there has died."""
    return answer(stored.reference, "the object store", FETCH_TIMEOUT)


def answers(references: Sequence[Any], who: Sequence[str], timeout: float) -> list[Any | Exception]:
    """What several calls gave, each its result or its error."""
    if not references:
        return []  # Ray would first look for a cluster, or start one
    deadline = Deadline(timeout)
    try:
        return list(ray.get(list(references), timeout=timeout))  # one wait for all, if all is well
    except RayError:
        pass
    ray.wait(list(references), num_returns=len(references), timeout=deadline.left)
    found: list[Any | Exception] = []
    for reference, name in zip(references, who, strict=True):
        try:
            found.append(answer(reference, name, 0))
        except Exception as error:
            found.append(error)
    return found


def retried(call: Callable[[float], Result], deadline: Deadline, most: float | None = None) -> Result:
    """What `call` gives, tried again as long as the actor is unavailable and there is time. `call` gets the seconds it may wait."""
    pause = PAUSE
    while True:
        try:
            return call(deadline.left if most is None else min(most, deadline.left))
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
        if isinstance(cause, RayError):  # of a call that the actor itself made
            _reraise(cause, who, timeout)
        raise error
    if isinstance(error, GetTimeoutError):
        raise UnavailableError(who, f"did not answer within {timeout:.3g} s") from None
    if isinstance(error, RayActorError):
        # Ray may raise the same for a process that is being started again and for one that never will be.
        ended = server_of_ended_actor(error.actor_id) if isinstance(error, ActorDiedError) else None
        if ended is not None:
            reason = (
                f"the server {ended!r} runs no more: it was stopped, or its machine is lost; start() or connect() anew"
            )
            raise UnavailableError(who, reason, died=True, gone=True) from None
        raise UnavailableError(who, "its process died or is restarting", died=True) from None
    raise UnavailableError(who, str(error).partition("\n")[0]) from error


async def answer_async(reference: Any, who: str, timeout: float) -> Any:
    """The same without holding a thread."""
    try:
        return await asyncio.wait_for(_awaited(reference), timeout)
    except TimeoutError:
        raise UnavailableError(who, f"did not answer within {timeout:.3g} s") from None
    except RayError as error:
        _reraise(error, who, timeout)


async def _awaited(reference: Any) -> Any:
    return await reference
