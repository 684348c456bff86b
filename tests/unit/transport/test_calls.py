"""Calls through Ray: what cannot be sent is an error of ours."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import pytest

from actors.transport.calls import sent
from ray_pubsub.errors import SettingError


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
