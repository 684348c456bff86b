"""Calls through Ray: what cannot be sent is an error of ours, and who is cancelled ends."""

from __future__ import annotations

import asyncio
import pickle
import threading
from typing import Any

import pytest
from ray.exceptions import ActorUnschedulableError

from actors.transport.calls import answer_async, sent
from ray_pubsub.errors import SettingError, UnavailableError


class Method:
    """Packs its arguments as Ray does."""

    def remote(self, *arguments: Any) -> bytes:
        return pickle.dumps(arguments)


def nested(levels: int) -> dict[str, Any]:
    event: dict[str, Any] = {}
    for _ in range(levels):
        event = {"a": event}
    return event


@pytest.mark.parametrize(
    "argument", [nested(100_000), threading.Lock(), lambda: None], ids=["deep", "lock", "function"]
)
def test_an_argument_that_cannot_be_sent(argument: Any) -> None:
    with pytest.raises(SettingError, match="an argument: cannot be sent to the server"):
        sent(Method(), argument)


def test_others_are_sent() -> None:
    assert pickle.loads(sent(Method(), 1, nested(10))) == (1, nested(10))


async def test_a_lost_machine_is_not_asked_again_and_the_error_says_what_to_do() -> None:
    """Ray's error for an actor that may only be on the node that has its files."""
    reply: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    reply.set_exception(ActorUnschedulableError("the node doesn't exist any more"))
    with pytest.raises(UnavailableError, match=r"start\(\) it again with its data_dir") as caught:
        await answer_async(reply, "the registry", 60.0)
    assert caught.value.gone


@pytest.mark.parametrize("steps", range(4))
async def test_a_cancellation_is_not_lost_if_the_reply_comes_at_once(steps: int) -> None:
    """The loop may be at any step between the reply and its receiver."""
    reply: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    cancelled = False

    async def asking() -> None:
        nonlocal cancelled
        try:
            await answer_async(reply, "the registry", 60.0)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled = True

    task = asyncio.create_task(asking())
    await asyncio.sleep(0.0)
    await asyncio.sleep(0.0)
    reply.set_result(1)
    for _ in range(steps):
        await asyncio.sleep(0.0)
    task.cancel()
    async with asyncio.timeout(60.0):
        await task
    assert cancelled
