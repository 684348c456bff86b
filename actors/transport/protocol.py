"""The protocol version by which a program and a server check that they understand each other."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from ray_pubsub.errors import ServerReleaseError

__all__ = ["PROTOCOL", "check_protocol", "own_protocol"]

PROTOCOL = 5
"""Must be raised with every change after which a program of the previous release would misunderstand a server, or the other way round: a
method of an actor that a `Server` calls has other arguments or another reply, or a message between them has other fields. How the two
compare it must never change: `Registry.opened` takes nothing and returns a dict with `release` and `protocol`."""


def own_protocol() -> dict[str, Any]:
    """Returns the release and protocol of this process."""
    return {"release": version("ray-pubsub"), "protocol": PROTOCOL}


def check_protocol(server: str, opened: Mapping[str, Any]) -> None:
    """Raises ServerReleaseError unless the server has the protocol of this process. Releases may differ."""
    if opened.get("protocol") != PROTOCOL:
        own = own_protocol()
        raise ServerReleaseError(
            server, opened.get("release", "of before 0.1"), opened.get("protocol", 0), own["release"], PROTOCOL
        )
