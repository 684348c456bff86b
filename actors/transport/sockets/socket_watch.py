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
        """What somebody waits for."""
        self._ends = 0.0
        """Until when, on the loop's clock."""
        self._timer: asyncio.TimerHandle | None = None
        """Set for `_ends` or an earlier time: one that is left when its request is answered serves the next ones too, because to set and to
        cancel one for each takes longer than to write the request."""
        loop.add_reader(self._descriptor, self._readable)

    def until_readable(self, seconds: float) -> asyncio.Future[None]:
        """Returns what is done when there is something to read, or the connection has ended, or after this time."""
        begun = self._begun = self.loop.create_future()
        ends = self._ends = self.loop.time() + (seconds if seconds > 0 else 0.0)
        if self._timer is None or ends < self._timer.when():
            self._set_timer(ends)
        return begun

    def _set_timer(self, ends: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(ends, self._late)

    def _late(self) -> None:
        self._timer = None
        if self._begun is None or self._begun.done():
            return
        if self.loop.time() < self._ends:
            self._set_timer(self._ends)
        else:
            begun, self._begun = self._begun, None
            begun.set_result(None)

    def _readable(self) -> None:
        if self._begun is None:  # the connection has ended, or a thread uses it meanwhile
            self.end()
        elif self._begun.done():  # some loops look again before who waited has read
            self._begun = None
        else:
            self._begun.set_result(None)

    def end(self) -> None:
        """Ends the watch; the connection can still be used."""
        if self.active:
            self.active = False
            self.loop.remove_reader(self._descriptor)
            if self._timer is not None:
                self._timer.cancel()

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
