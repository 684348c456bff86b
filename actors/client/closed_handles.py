"""What stands in the place of an actor's handle once the server was stopped or closed here.

A call by a handle of a connection that has ended would make Ray start a new cluster, and one to an actor that was stopped would be waited
for as if it were restarting.
"""

from __future__ import annotations

from typing import NoReturn

from ray_pubsub.errors import ServerClosedError

__all__ = ["ClosedHandle"]


class ClosedHandle:
    """Every use of it raises ServerClosedError."""

    def __init__(self, server: str, how: str) -> None:
        self._server, self._how = server, how

    def __repr__(self) -> str:
        return f"<handle of {self._server!r}, which was {self._how}>"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):  # what copying, pickling and inspecting look for
            raise AttributeError(name)
        raise ServerClosedError(self._server, self._how)
