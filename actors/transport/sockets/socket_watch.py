"""Waits in an event loop until a connection has something to read.

The loop keeps the connection among those that it watches while it is used for one request after the other: to begin and to end watching
takes uvloop a dozen calls of the system, several times as long as the request itself.
"""

from __future__ import annotations

import asyncio
import socket

__all__ = ["SocketWatch"]


class SocketWatch:
    """The watch of one socket in one loop. All methods but `leave` and `close` are for the thread of the loop."""

    def __init__(self, own: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.active = True
        self._descriptor = own.fileno()
        self._begun: asyncio.Future[None] | None = None
        loop.add_reader(self._descriptor, self._readable)

    async def until_readable(self, seconds: float) -> None:
        """Returns when there is something to read, or the connection has ended, or after this time."""
        begun = self._begun = self.loop.create_future()
        timer = self.loop.call_later(max(0.0, seconds), _end, begun)
        try:
            await begun
        finally:
            self._begun = None
            timer.cancel()

    def _readable(self) -> None:
        if self._begun is not None:
            _end(self._begun)
        else:  # the connection has ended, or a thread uses it meanwhile
            self.end()

    def end(self) -> None:
        """Ends the watch; the connection can still be used."""
        if self.active:
            self.active = False
            self.loop.remove_reader(self._descriptor)

    def leave(self) -> None:
        """Ends the watch of a loop that is another's, or closed."""
        try:
            self.loop.call_soon_threadsafe(self.end)
        except RuntimeError:  # it is closed, and watches nothing
            self.active = False

    def close(self, own: socket.socket) -> None:
        """Closes the socket, in the thread of the loop: a loop must not watch a descriptor that may already be another's."""

        def ended() -> None:
            self.end()
            own.close()

        if self._is_here():
            ended()
            return
        try:
            self.loop.call_soon_threadsafe(ended)
        except RuntimeError:  # the loop is closed
            own.close()

    def _is_here(self) -> bool:
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False


def _end(begun: asyncio.Future[None]) -> None:
    if not begun.done():
        begun.set_result(None)
