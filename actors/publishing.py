"""A publisher's side: events in portions, several on their way at once, repeated under their ids when a coordinator dies."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray
from ray import cloudpickle

from actors.calls import LONGEST_PAUSE, PAUSE, Deadline, answer, answer_async, fetched, retried
from actors.neighbour_connection import NeighbourAddress
from actors.neighbour_links import Asked, NeighbourLinks
from actors.packing import unpacked, unpacked_apart
from actors.publish_result import PublishResult
from actors.published_events import PublishedEvents, new_request, prepare
from actors.stored_batch import Stored
from ray_pubsub.delivery.levels import seconds
from ray_pubsub.errors import EventError, OverloadedError, RayPubSubError, SettingError, UnavailableError

__all__ = ["Publisher"]

PORTION = 8192
"""Events that go in one call. Large enough to be worth a call, small enough that several fit in flight."""
UNDER_WAY = 4
SMALL = 64
MOST_LINKS = 32
FIND_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class Portion:
    events: Any
    """Ready to travel; or, if they are few dicts, as they are."""
    request: str
    event_id: str | None


@dataclass(frozen=True, slots=True)
class Sent:
    portion: Portion
    reference: Any
    """Of the call; or the question, if it went by a link."""
    deadline: Deadline


class Publisher:
    """Safe to use from several threads."""

    def __init__(self, coordinators: Sequence[Any], timeout: float) -> None:
        self._coordinators = list(coordinators)
        self._timeout = timeout
        self._names: dict[str, dict[int, str]] = {}
        self._turn = itertools.count(os.getpid())
        node = str(ray.get_runtime_context().get_node_id())
        # By the list and not by this: so a publisher that nobody has any more is gone at once, and its connections with it.
        self._neighbours = NeighbourLinks(partial(_neighbour, self._coordinators), node, MOST_LINKS, "coordinator")
        weakref.finalize(self, self._neighbours.close)

    def __reduce__(self) -> Any:
        """In another process it has links of its own."""
        return Publisher, (self._coordinators, self._timeout)

    def close(self, handle: Any) -> None:
        """What still asks here (a stream under way, a result that looks for names) is told so by this handle."""
        self._coordinators[:] = [handle] * len(self._coordinators)
        self._neighbours.close()

    def publish(
        self, events: Any, event_id: str | None, deliver: bool, request: str | None, timeout: float | None
    ) -> PublishResult:
        portions = self._portions(events, event_id, deliver, request)
        return PublishResult.joined(list(self._in_turn(portions, deliver, UNDER_WAY, self._seconds(timeout), 0.0)))

    async def publish_async(
        self, events: Any, event_id: str | None, deliver: bool, request: str | None, timeout: float | None
    ) -> PublishResult:
        each = self._seconds(timeout)
        results: list[PublishResult] = []
        under_way: deque[Sent] = deque()
        for portion in self._portions(events, event_id, deliver, request):
            under_way.append(self._call(portion, deliver, Deadline(each)))
            if len(under_way) == UNDER_WAY:
                results.append(await self._collect_async(under_way.popleft(), deliver))
        while under_way:
            results.append(await self._collect_async(under_way.popleft(), deliver))
        return PublishResult.joined(results)

    def publish_stream(
        self,
        batches: Iterable[Any],
        event_id: str | None,
        deliver: bool,
        requests: Iterable[str] | None,
        under_way: int,
        timeout: float | None,
        patience: float,
    ) -> Iterator[PublishResult]:
        if not isinstance(under_way, int) or under_way < 1:
            raise SettingError("under_way", f"must be a whole number of at least 1, not {under_way!r}")
        each = self._seconds(timeout)
        named = zip(batches, requests if requests is not None else iter(new_request, None), strict=False)
        portions = (self._portion(batch, event_id, deliver, request, 0) for batch, request in named)
        return self._in_turn(portions, deliver, under_way, each, seconds("patience", patience))

    def _in_turn(
        self, portions: Iterable[Portion], deliver: bool, most: int, each: float, patience: float
    ) -> Iterator[PublishResult]:
        """The results in the order of the portions, of which so many are under way; each has so many seconds."""
        under_way: deque[Sent] = deque()
        try:
            for portion in portions:
                under_way.append(self._send(portion, deliver, Deadline(each)))
                if len(under_way) == most:
                    yield self._collect(under_way.popleft(), deliver, Deadline(patience))
            while under_way:
                yield self._collect(under_way.popleft(), deliver, Deadline(patience))
        finally:
            for sent in under_way:
                if isinstance(sent.reference, Asked):
                    sent.reference.give_up()

    def _seconds(self, timeout: float | None) -> float:
        if timeout is not None and not seconds("timeout", timeout) > 0:
            raise SettingError("timeout", "must be more than 0 seconds")
        return self._timeout if timeout is None else timeout

    def _collect(self, sent: Sent, deliver: bool, patience: Deadline) -> PublishResult:
        """Sent again under the same name if the coordinator has died meanwhile; and if it is overloaded, as long as there is patience."""
        pause = PAUSE
        late = not sent.deadline  # nobody has looked for the result meanwhile, and a link keeps it for a while only
        while True:
            try:
                if not isinstance(sent.reference, Asked):
                    return self._complete(answer(sent.reference, "the coordinator", sent.deadline.left))
                parts = sent.reference.answer(sent.deadline.left)
                if parts is not None:
                    return self._complete(unpacked_apart(parts))
                deadline, late = Deadline(sent.deadline.seconds) if late else sent.deadline, False
                if not deadline:
                    raise UnavailableError("the coordinator", f"did not answer within {deadline.seconds:.3g} s")
                sent = self._call(sent.portion, deliver, deadline)
            except UnavailableError as error:
                if error.gone or sent.deadline.left <= pause:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                sent = self._send(sent.portion, deliver, sent.deadline)
            except OverloadedError as error:
                if patience.left <= error.retry_after:
                    raise
                # Who waits longest waits a little less: else all would come back at once.
                time.sleep(error.retry_after * (0.5 + (next(self._turn) * 0.618) % 1.0))
                sent = self._send(sent.portion, deliver, Deadline(sent.deadline.seconds))

    async def _collect_async(self, sent: Sent, deliver: bool) -> PublishResult:
        pause = PAUSE
        while True:
            try:
                return self._complete(await answer_async(sent.reference, "the coordinator", sent.deadline.left))
            except UnavailableError as error:
                if error.gone or sent.deadline.left <= pause:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            sent = self._call(sent.portion, deliver, sent.deadline)

    def _complete(self, found: PublishResult | bytes | RayPubSubError) -> PublishResult:
        """The columns are mapped into this process before the result is handed on: they live as long as the coordinator."""
        if isinstance(found, RayPubSubError):
            raise found
        result: PublishResult = unpacked(found) if isinstance(found, bytes) else found
        result.fetch(fetched)
        result.naming = self._names_of
        return result

    def _names_of(self, lineage: str, codes: NDArray[np.int32]) -> dict[int, str]:
        """Names never change, so each is asked for once."""
        known = self._names.setdefault(lineage, {})
        unknown = np.array([code for code in codes.tolist() if code not in known], np.int32)
        if len(unknown):

            def call(timeout: float) -> dict[int, str]:
                reference = self._coordinators[0].names_of.remote(lineage, unknown)
                names: dict[int, str] = answer(reference, "the coordinator", timeout)
                return names

            known.update(retried(call, Deadline(self._timeout)))
        return known

    def _send(self, portion: Portion, deliver: bool, deadline: Deadline) -> Sent:
        """To a coordinator on this node by a link, if there is one; else through Ray, which also finds out what is wrong with a link."""
        number = next(self._turn) % len(self._coordinators)
        question: tuple[Any, ...]
        if isinstance(portion.events, PublishedEvents):
            question = (portion.events, deliver, portion.request, deadline.left)
        else:
            question = (_few(portion, deliver, deadline),)
        asked = self._neighbours.ask(number, *question, patience=deadline.left)
        return self._call(portion, deliver, deadline, number) if asked is None else Sent(portion, asked, deadline)

    def _call(self, portion: Portion, deliver: bool, deadline: Deadline, number: int | None = None) -> Sent:
        """To this coordinator, or to the next one in turn."""
        coordinator = self._coordinators[next(self._turn) % len(self._coordinators) if number is None else number]
        if isinstance(portion.events, PublishedEvents):
            # Raises if this is closed: Ray would start a cluster to put something in.
            publish = coordinator.publish_prepared
            events, stored = portion.events, None
            if len(events) > SMALL:
                events, stored = replace(events, batch=None), Stored(ray.put(events.batch))  # type: ignore[arg-type]
            reference = publish.remote(events, stored, deliver, portion.request, deadline.left)
        else:
            reference = coordinator.publish_few.remote(_few(portion, deliver, deadline))
        return Sent(portion, reference, deadline)

    def _portions(self, events: Any, event_id: str | None, deliver: bool, request: str | None) -> Iterator[Portion]:
        request = new_request() if request is None else request
        for number, part in enumerate(_cut(events)):
            yield self._portion(part, event_id, deliver, request, number)

    def _portion(self, events: Any, event_id: str | None, deliver: bool, request: str, number: int) -> Portion:
        # A repeated publication has the same portions, and so the same names for them.
        own = request if number == 0 else f"{request}/{number}"
        if isinstance(events, list) and len(events) <= SMALL and all(type(event) is dict for event in events):
            return Portion(events, own, event_id)
        prepared = events if isinstance(events, PublishedEvents) else prepare(events, event_id, own, deliver)
        return Portion(prepared, own, event_id)


def _neighbour(coordinators: list[Any], number: int) -> NeighbourAddress | None:
    """Where this coordinator may be asked by those on its node."""
    address: NeighbourAddress | None = answer(
        coordinators[number].neighbour_address.remote(), "the coordinator", FIND_TIMEOUT
    )
    return address


def _few(portion: Portion, deliver: bool, deadline: Deadline) -> bytes:
    """One argument: Ray takes its time for each. And packed as Ray would: pickle knows no class of a publisher's own program."""
    publication: Any = (portion.events, portion.event_id, deliver, portion.request, deadline.left)
    found: bytes = cloudpickle.dumps(publication)  # type: ignore[no-untyped-call]
    return found


def _cut(events: Any) -> Iterator[Any]:
    if isinstance(events, Mapping):
        yield [events]
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
