"""The object that replaces an actor's handle after the server was stopped or closed in this process.

Without it, a call through a handle whose connection has ended would make Ray start a new cluster, and a call to a stopped actor would wait
as if the actor were restarting.
"""

from __future__ import annotations

from typing import NoReturn

from ray_pubsub.errors import ServerClosedError

__all__ = ["ClosedHandle"]


class ClosedHandle:
    """Stands in for an actor's handle; every use raises ServerClosedError."""

    def __init__(self, server: str, how: str) -> None:
        self._server, self._how = server, how

    def __repr__(self) -> str:
        return f"<handle of {self._server!r}, which was {self._how}>"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):  # copy, pickle and inspect look for such names
            raise AttributeError(name)
        raise ServerClosedError(self._server, self._how)
