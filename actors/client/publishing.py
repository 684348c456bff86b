"""The publisher's side of a server: events are sent in portions, several in flight, and sent again under their idempotency keys when a
coordinator crashes."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.client.preparing import new_key, prepare, prepare_single
from actors.client.publish_result import PublishResult
from actors.server_settings import LONGEST
from actors.transport.calls import LONGEST_PAUSE, PAUSE, Deadline
from actors.transport.coordinator_client import CoordinatorClient, Publication
from actors.transport.dispatch import Call
from actors.transport.publish_reply import PublishReply
from actors.transport.published_events import PublishedEvents
from ray_pubsub.columns.json.documents import Document, Documents
from ray_pubsub.errors import EventError, OverloadedError, UnavailableError
from ray_pubsub.model.arguments import check_flag, check_key, check_name, check_seconds, check_whole
from ray_pubsub.model.metadata import Lookup

__all__ = ["PublishOptions", "Publisher"]

PORTION = 8192
"""The number of events in one call. It is large enough to be worth a call, and small enough for several calls in flight."""
MAX_IN_FLIGHT = 4
FLAGS = {bool}


@dataclass(slots=True, eq=False)  # not frozen: to make one that is takes three times as long
class PublishOptions:
    """The options of `Server.publish`. They are checked before anything is sent, because a SettingError here is easier to understand
    than a failure in another process."""

    event_id: str | None = None
    deliver: bool = True
    strict: bool = False
    timeout: float | None = None
    idempotency_key: str | None = None

    def __post_init__(self) -> None:
        if self.event_id is not None:
            check_name("event_id", self.event_id)
        kinds: set[Any] = {type(self.deliver), type(self.strict)}
        if kinds != FLAGS:
            check_flag("deliver", self.deliver)
            check_flag("strict", self.strict)
        if self.idempotency_key is not None:
            check_key(self.idempotency_key)
        if self.timeout is not None:
            check_seconds("timeout", self.timeout, zero=False, most=LONGEST)


@dataclass(slots=True)
class Sent:
    portion: Publication
    """The whole publication, or a portion of it."""
    call: Call
    deadline: Deadline


class Publisher:
    """Publishes events through the coordinators. Safe to use from several threads."""

    def __init__(self, coordinators: Sequence[Any], timeout: float, lookup: Lookup | None = None) -> None:
        """`lookup` finds the data and tags of subscriptions, for results."""
        self._client = CoordinatorClient(coordinators)
        self._timeout = timeout
        self._lookup = lookup
        self._names: dict[str, dict[int, str]] = {}

    def __reduce__(self) -> Any:
        """Pickles the publisher without its connections; a copy in another process makes its own."""
        return Publisher, (self._client.coordinators, self._timeout)

    def close(self, handle: Any) -> None:
        """Replaces the handles by one that raises, so that every later use raises, also that of streams and results that exist already."""
        self._client.close(handle)

    def publish(self, events: Any, options: PublishOptions) -> PublishResult:
        key = new_key() if options.idempotency_key is None else options.idempotency_key
        if isinstance(events, dict | Document):
            portion = _portion(events, options, key, 0)
            try:
                return self._collect(self._send(portion, Deadline(self._seconds(options))), Deadline(0.0))
            except OverloadedError as error:
                raise _in_part(error, events, [], key) from None
        portions = _portions(events, options, key)
        results: list[PublishResult] = []
        try:
            for result in self._in_order(portions, MAX_IN_FLIGHT, self._seconds(options), 0.0):
                results.append(result)
        except OverloadedError as error:
            raise _in_part(error, events, results, key) from None
        return PublishResult.joined(results)

    def publish_async(self, events: Any, options: PublishOptions) -> Coroutine[Any, Any, PublishResult]:
        key = new_key() if options.idempotency_key is None else options.idempotency_key
        if isinstance(events, dict | Document):  # one portion needs no task of its own
            seconds = self._timeout if options.timeout is None else options.timeout
            return self._published(_portion(events, options, key, 0), Deadline(seconds))
        return self._published_in_portions(events, options, key)

    async def _published_in_portions(self, events: Any, options: PublishOptions, key: str) -> PublishResult:
        seconds = self._seconds(options)
        results: list[PublishResult] = []
        in_flight: deque[asyncio.Task[PublishResult]] = deque()
        try:
            for portion in _portions(events, options, key):
                in_flight.append(asyncio.create_task(self._published(portion, Deadline(seconds))))
                if len(in_flight) == MAX_IN_FLIGHT:
                    results.append(await in_flight.popleft())
            while in_flight:
                results.append(await in_flight.popleft())
        except OverloadedError as error:
            raise _in_part(error, events, results, key) from None
        finally:
            if in_flight:
                for task in in_flight:
                    task.cancel()
                await asyncio.gather(*in_flight, return_exceptions=True)
        return PublishResult.joined(results)

    def publish_stream(
        self,
        batches: Iterable[Any],
        options: PublishOptions,
        keys: Iterable[str] | None,
        max_in_flight: int,
        patience: float,
    ) -> Iterator[PublishResult]:
        check_whole("max_in_flight", max_in_flight, 1)
        named = zip(batches, keys if keys is not None else iter(new_key, None), strict=False)
        portions = (_portion(batch, options, key, 0) for batch, key in named)
        return self._in_order(portions, max_in_flight, self._seconds(options), check_seconds("patience", patience))

    def _in_order(
        self, portions: Iterable[Publication], most: int, seconds: float, patience: float
    ) -> Iterator[PublishResult]:
        """Yields the results in the order of the portions, with at most `most` portions in flight. `seconds` is the deadline of each
        portion."""
        in_flight: deque[Sent] = deque()
        try:
            for portion in portions:
                in_flight.append(self._send(portion, Deadline(seconds)))
                if len(in_flight) == most:
                    yield self._collect(in_flight.popleft(), Deadline(patience))
            while in_flight:
                yield self._collect(in_flight.popleft(), Deadline(patience))
        finally:
            for sent in in_flight:
                sent.call.cancel()

    def _seconds(self, options: PublishOptions) -> float:
        return self._timeout if options.timeout is None else options.timeout

    def _send(self, portion: Publication, deadline: Deadline) -> Sent:
        return Sent(portion, self._client.send(portion, deadline), deadline)

    def _collect(self, sent: Sent, patience: Deadline) -> PublishResult:
        """Returns the result of a portion. Sends it again under the same key if the coordinator has crashed, and, while there is
        patience left, if the coordinator is overloaded."""
        pause, maybe_done = PAUSE, False
        if not sent.deadline:  # the caller collects late; the server was not slow
            sent.deadline = Deadline(sent.deadline.seconds)
        while True:
            try:
                return self._result(sent.portion, self._client.reply(sent.call, sent.deadline))
            except UnavailableError as error:
                if error.gone or sent.deadline.left <= pause:
                    raise
                maybe_done = True
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                sent = self._send(sent.portion, sent.deadline)
            except OverloadedError as error:
                if patience.left <= error.retry_after:
                    raise (error.unfinished(0, sent.portion.key) if maybe_done else error) from None
                # The pauses differ, because otherwise all publishers would come back at the same time.
                time.sleep(error.retry_after * (0.5 + (self._client.turn() * 0.618) % 1.0))
                sent = self._send(sent.portion, Deadline(sent.deadline.seconds))

    async def _published(self, portion: Publication, deadline: Deadline) -> PublishResult:
        pause, maybe_done = PAUSE, False
        while True:
            try:
                reply = await self._client.send(portion, deadline).reply_async(deadline)
                if isinstance(reply, Exception):
                    raise reply
                return self._result(portion, reply)
            except UnavailableError as error:
                if error.gone or deadline.left <= pause:
                    raise
            except OverloadedError as error:
                raise (error.unfinished(0, portion.key) if maybe_done else error) from None
            maybe_done = True
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _result(self, portion: Publication, reply: PublishReply) -> PublishResult:
        result = PublishResult.of(portion.events, reply)
        result.naming, result.lookup = self._names_of, self._lookup
        result.idempotency_key = portion.key
        return result

    def _names_of(self, lineage: str, codes: NDArray[np.int32]) -> dict[int, str]:
        """Returns subscribers' names by code. Names never change, so each is requested only once."""
        known = self._names.setdefault(lineage, {})
        unknown = np.array([code for code in codes.tolist() if code not in known], np.int32)
        if len(unknown):
            known.update(self._client.names_of(lineage, unknown, self._timeout))
        return known


PORTION_SEPARATOR = "\x1f"
"""ASCII's unit separator. It cannot occur in a caller's key, because keys must be printable."""


def _in_part(error: OverloadedError, events: Any, results: Sequence[PublishResult], key: str) -> OverloadedError:
    """Returns the error with the number of events that were published. Of a publication in portions, the portions before the refused one
    may have been published, and so may those in flight beside it."""
    alone = isinstance(events, Mapping | Document) or (hasattr(events, "__len__") and len(events) <= PORTION)
    if alone and error.idempotency_key is None:
        return error
    return error.unfinished(sum(len(result.event_ids) for result in results), key)


def _portions(events: Any, options: PublishOptions, key: str) -> Iterator[Publication]:
    for number, part in enumerate(_cut(events)):
        yield _portion(part, options, key, number)


def _portion(events: Any, options: PublishOptions, key: str, number: int) -> Publication:
    # A repeated publication is cut into the same portions, which get the same keys. A caller's key never contains the separator.
    own = key if number == 0 else f"{key}{PORTION_SEPARATOR}{number}"
    if isinstance(events, Document) and options.event_id is None:
        single = prepare_single(events, own, options.deliver, options.strict)
        if single is not None:
            return Publication(single, own, options.deliver)
    if not isinstance(events, PublishedEvents):
        events = prepare(events, options.event_id, own, options.deliver, strict=options.strict)
    return Publication(events, own, options.deliver)


def _cut(events: Any) -> Iterator[Any]:
    if isinstance(events, Mapping | Document):
        yield events
        return
    if isinstance(events, Documents):
        for start in range(0, max(1, events.size), PORTION):
            yield events.part(start, start + PORTION)
        return
    if hasattr(events, "read_all"):
        events = events.read_all()
    module = type(events).__module__.partition(".")[0]
    if module not in ("pyarrow", "pandas"):
        if isinstance(events, str | bytes) or not hasattr(events, "__iter__"):
            raise EventError(
                None,
                "events are a dict, a list of dicts, a pyarrow Table or RecordBatch or a pandas DataFrame, "
                f"not {type(events).__name__}",
            )
        events = events if isinstance(events, list) else list(events)
    if len(events) <= PORTION:
        yield events
        return
    for start in range(0, len(events), PORTION):
        if module == "pyarrow":
            yield events.slice(start, PORTION)
        elif module == "pandas":
            yield events.iloc[start : start + PORTION]
        else:
            yield events[start : start + PORTION]
