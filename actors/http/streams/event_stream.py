"""Server-sent events: the deliveries of one subscriber, pushed as they arrive.

Each message has the delivery's sequence as its id. `ack` decides how deliveries are acknowledged:

auto    What was sent is acknowledged `settle` seconds later if the connection is still open: TCP has confirmed it by then, or the
        connection would be closed. A client that comes back with Last-Event-ID: n acknowledges everything that its last stream sent up
        to and including n, in the order of sending; what was sent after n is handed out again at once, and does not count as an attempt.
        Without a Last-Event-ID, deliveries in doubt come again after their visibility timeout.
manual  Deliveries are acknowledged only by POST …/ack with the messages' receipts. Last-Event-ID has the same meaning.

A stream whose subscriber nobody has subscribed as begins with a comment that says so.

So every delivery arrives at least once, and the id identifies repetitions. Streams of one subscriber share its deliveries.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from actors.http.backend import Backend
from actors.http.encoding import delivery_json
from actors.http.known_subscribers import KnownSubscribers
from actors.http.requests import Request
from actors.http.streams.wakeups import Wakeups
from actors.mailboxes.delivery import Delivery, Receipt
from ray_pubsub.errors import RayPubSubError

__all__ = ["EventStream", "EventStreams", "StreamOptions"]

logger = logging.getLogger(__name__)

PORTION = 200
"""The most deliveries of one poll."""
KEPT_CLOSED = 60.0
"""The seconds for which a stream that has ended can be resumed. After that, what it had in doubt is handed out again."""
VISIBLE_AFTER = 30.0
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class InDoubt(NamedTuple):
    """A delivery that was sent and is not acknowledged."""

    receipt: Receipt
    until: float
    """When it is acknowledged or, if the client acknowledges, when it comes again."""


class StreamOptions(NamedTuple):
    """The options of a stream."""

    manual: bool
    """Whether the client acknowledges."""
    window: int
    """The most deliveries that may be unacknowledged."""
    data: bool = False
    """Whether messages have the data and tags of the subscriptions."""


class EventStream:
    """One open connection. It has a task of its own only while there is something to send."""

    __slots__ = (
        "_checked",
        "_data",
        "_pump",
        "_request",
        "_streams",
        "_woken",
        "client",
        "closed",
        "ended",
        "in_doubt",
        "last_settled",
        "manual",
        "subscriber",
        "window",
    )

    def __init__(self, streams: EventStreams, request: Request, subscriber: str, options: StreamOptions) -> None:
        self._streams = streams
        self._request = request
        self.subscriber = subscriber
        self.client = request.client.name
        self.ended = asyncio.Event()
        """Set when the client may read no more."""
        self.manual, self.window, self._data = options
        self.in_doubt: deque[InDoubt] = deque()
        self.last_settled = 0
        self.closed: float | None = None
        self._pump: asyncio.Task[None] | None = None
        self._woken = self._checked = False

    def wake(self) -> None:
        """Tells the stream that there may be something to send."""
        self._woken = True
        if self._pump is None and self.closed is None:
            self._pump = asyncio.create_task(self._send_all())

    @property
    def idle(self) -> bool:
        return self._pump is None

    async def _send_all(self) -> None:
        backend, streams = self._streams.backend, self._streams
        try:
            while self._woken and self.closed is None:
                self._woken = False
                while self.manual and self.in_doubt and self.in_doubt[0].until <= time.monotonic():
                    self.in_doubt.popleft()
                room = min(PORTION, self.window - len(self.in_doubt))
                if room <= 0:
                    return  # the stream is woken again when something was acknowledged
                visible = None if self.manual else streams.settle + VISIBLE_AFTER
                found = await backend.poll(self.subscriber, room, visible)
                if not found and not self._checked:
                    self._checked = True
                    warning = await streams.known.warning(self.subscriber, self._request.client)
                    if warning is not None:
                        await self.write(f": warning: {warning}\n\n".encode())
                if found:
                    self._woken = True
                    carried = await backend.carried(self.subscriber, found) if self._data else [None] * len(found)
                    lasts = found[0].visible_until - time.time() if self.manual else streams.settle
                    until = time.monotonic() + lasts
                    self.in_doubt.extend(InDoubt(each.receipt, until) for each in found)
                    streams.sent += len(found)
                    if self.manual:
                        streams.wakeups.wake_in(self.subscriber, lasts)
                    else:
                        streams.unsettled.add(self)
                    await self.write(b"".join(map(_message, found, carried)))
        except RayPubSubError as error:
            logger.debug("stream of %s: %s", self.subscriber, error)
            asyncio.get_running_loop().call_later(1.0, self.wake)
        except OSError:
            pass  # the connection has ended, and the request will too
        finally:
            self._pump = None

    async def write(self, content: bytes) -> None:
        await self._request.send({"type": "http.response.body", "body": content, "more_body": True})

    def close(self) -> None:
        if self.closed is None:
            self.closed = time.monotonic()
            if self._pump is not None:
                self._pump.cancel()

    def divided_at(self, sequence: int) -> tuple[list[Receipt], list[Receipt]] | None:
        """Returns the receipts of what was sent up to this message, and after it; None if this stream did not send the message, or sent
        it too long ago."""
        receipts = [each.receipt for each in self.in_doubt]
        for place, receipt in enumerate(receipts):
            if receipt.sequence == sequence:
                return receipts[: place + 1], receipts[place + 1 :]
        return ([], receipts) if sequence == self.last_settled else None


class EventStreams:
    """All streams of this process, and those that have ended recently."""

    def __init__(
        self, backend: Backend, wakeups: Wakeups, known: KnownSubscribers, settle: float, heartbeat: float
    ) -> None:
        self.backend = backend
        self.wakeups = wakeups
        self.known = known
        self.settle = settle
        self._heartbeat = heartbeat
        self._open: dict[str, set[EventStream]] = {}
        """The open streams by subscriber."""
        self._count = 0
        self.unsettled: set[EventStream] = set()
        self._ended: dict[str, list[EventStream]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.sent = 0

    def __len__(self) -> int:
        return self._count

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._settle_for_ever()), asyncio.create_task(self._beat_for_ever())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for stream in self._all():
            stream.close()

    def _all(self) -> list[EventStream]:
        return [stream for streams in self._open.values() for stream in streams]

    async def serve(self, request: Request, subscriber: str, options: StreamOptions, last: int | None) -> None:
        """Sends deliveries until the client has disconnected."""
        if last is not None:
            await self._resume(subscriber, last)
        stream = EventStream(self, request, subscriber, options)
        await request.send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await stream.write(b"retry: 2000\n\n")
        self._open.setdefault(subscriber, set()).add(stream)
        self._count += 1
        self.wakeups.add(subscriber, stream.wake)
        try:
            stream.wake()
            await _first(request.disconnected(), stream.ended.wait())
            if stream.ended.is_set():
                stream.close()
                await request.send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            stream.close()
            self.wakeups.remove(subscriber, stream.wake)
            self._remove(stream)
            self.unsettled.discard(stream)
            if stream.in_doubt or stream.last_settled:
                self._ended.setdefault(subscriber, []).append(stream)
            if stream.in_doubt:
                self.wakeups.wake_in(subscriber, self.settle + VISIBLE_AFTER)

    def end_client(self, name: str) -> None:
        """Ends the streams of a client. What is in doubt comes again after its visibility timeout."""
        for stream in self._all():
            if stream.client == name:
                stream.ended.set()

    def end_all(self) -> None:
        for stream in self._all():
            stream.ended.set()

    def _remove(self, stream: EventStream) -> None:
        own = self._open[stream.subscriber]
        own.discard(stream)
        self._count -= 1
        if not own:
            del self._open[stream.subscriber]

    async def _resume(self, subscriber: str, last: int) -> None:
        """Settles what `Last-Event-ID` settles. Closes a stream that the client has left and whose end was not noticed yet."""
        for stream in [*self._ended.get(subscriber, ()), *self._open.get(subscriber, ())]:
            divided = stream.divided_at(last)
            if divided is None:
                continue
            done, again = divided
            stream.close()
            stream.in_doubt.clear()
            if done:
                await self.backend.settle("ack", subscriber, done)
            if again:
                await self.backend.settle("release", subscriber, again)
            stream.last_settled = 0
            return

    async def _settle_for_ever(self) -> None:
        while True:
            await asyncio.sleep(min(1.0, self.settle / 2))
            for stream in tuple(self.unsettled):
                await self._settle(stream)
            self._forget_ended()

    async def _settle(self, stream: EventStream) -> None:
        now = time.monotonic()
        settled: list[Receipt] = []
        while stream.in_doubt and stream.in_doubt[0].until <= now and stream.closed is None:
            settled.append(stream.in_doubt.popleft().receipt)
        if not stream.in_doubt:
            self.unsettled.discard(stream)
        if not settled:
            return
        stream.last_settled = settled[-1].sequence
        try:
            await self.backend.settle("ack", stream.subscriber, settled)
        except RayPubSubError as error:  # the deliveries come again
            logger.warning("could not acknowledge what was sent to %s: %s", stream.subscriber, error)
        stream.wake()

    def settled(self, subscriber: str, receipts: Iterable[Receipt]) -> None:
        """Takes note that the client itself has settled these deliveries."""
        given = set(receipts)
        for stream in self._open.get(subscriber, ()):
            if stream.in_doubt:
                stream.in_doubt = deque(each for each in stream.in_doubt if each.receipt not in given)
                stream.wake()

    def _forget_ended(self) -> None:
        oldest = time.monotonic() - KEPT_CLOSED
        for subscriber, ended in list(self._ended.items()):
            kept = [stream for stream in ended if (stream.closed or 0.0) > oldest]
            if kept:
                self._ended[subscriber] = kept
            else:
                del self._ended[subscriber]

    async def _beat_for_ever(self) -> None:
        """Writes a comment to every idle stream, a few streams at a time."""
        while True:
            await asyncio.sleep(self._heartbeat)
            for count, stream in enumerate(self._all(), 1):
                if stream.idle and stream.closed is None:
                    with suppress(TimeoutError, OSError):  # the client does not read; TCP gives it up
                        await asyncio.wait_for(stream.write(b":\n\n"), 0.05)
                if not count % 100:
                    await asyncio.sleep(0.01)


async def _first(*waits: Coroutine[Any, Any, Any]) -> None:
    """Returns when one of them has ended; the others are cancelled."""
    tasks = [asyncio.create_task(each) for each in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _message(delivery: Delivery, carried: dict[str, Any] | None) -> bytes:
    return b"id: %d\nevent: delivery\ndata: %s\n\n" % (delivery.sequence, delivery_json(delivery, carried))
