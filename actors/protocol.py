"""What a program and a server must have in common to understand each other."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from ray_pubsub.errors import ServerReleaseError

__all__ = ["PROTOCOL", "check_protocol", "own_protocol"]

PROTOCOL = 1
"""Raise it with every change after which a program of the release before would misunderstand a server, or the other way round: an actor's
method that a `Server` calls has other arguments or another answer, or a class whose objects travel between them has other fields. What must
never change is how the two compare it: `Registry.opened` takes nothing and gives a dict with `release` and `protocol`."""


def own_protocol() -> dict[str, Any]:
    """What this process has."""
    return {"release": version("ray-pubsub"), "protocol": PROTOCOL}


def check_protocol(server: str, told: Mapping[str, Any]) -> None:
    """Raises ServerReleaseError unless the server that told this speaks as this process does. Releases may differ."""
    if told.get("protocol") != PROTOCOL:
        own = own_protocol()
        raise ServerReleaseError(
            server, told.get("release", "of before 0.1"), told.get("protocol", 0), own["release"], PROTOCOL
        )
