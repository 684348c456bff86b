"""A publisher's side: events in portions, several on their way at once, repeated under their ids when a coordinator dies."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from actors.calls import LONGEST_PAUSE, PAUSE, Deadline, answer, answer_async, fetched, retried
from actors.publish_result import PublishResult
from actors.published_events import PublishedEvents, new_request, prepare
from actors.stored_batch import Stored
from ray_pubsub.delivery.levels import seconds
from ray_pubsub.errors import EventError, SettingError, UnavailableError

__all__ = ["Publisher"]

PORTION = 8192
"""Events that go in one call. Large enough to be worth a call, small enough that several fit in flight."""
UNDER_WAY = 4
SMALL = 64


@dataclass(frozen=True, slots=True)
class Portion:
    events: PublishedEvents
    stored: Stored | None
    request: str


class Publisher:
    """Safe to use from several threads."""

    def __init__(self, coordinators: Sequence[Any], timeout: float) -> None:
        self._coordinators = list(coordinators)
        self._timeout = timeout
        self._names: dict[str, dict[int, str]] = {}
        self._turn = itertools.count(os.getpid())

    def publish(
        self, events: Any, event_id: str | None, deliver: bool, request: str | None, timeout: float | None
    ) -> PublishResult:
        deadline = self._deadline(timeout)
        results: list[PublishResult] = []
        under_way: deque[tuple[Portion, Any]] = deque()
        for portion in self._portions(events, event_id, deliver, request):
            under_way.append((portion, self._send(portion, deliver, deadline)))
            if len(under_way) == UNDER_WAY:
                results.append(self._collect(*under_way.popleft(), deliver, deadline))
        while under_way:
            results.append(self._collect(*under_way.popleft(), deliver, deadline))
        return PublishResult.joined(results)

    async def publish_async(
        self, events: Any, event_id: str | None, deliver: bool, request: str | None, timeout: float | None
    ) -> PublishResult:
        deadline = self._deadline(timeout)
        results: list[PublishResult] = []
        under_way: deque[tuple[Portion, Any]] = deque()
        for portion in self._portions(events, event_id, deliver, request):
            under_way.append((portion, self._send(portion, deliver, deadline)))
            if len(under_way) == UNDER_WAY:
                results.append(await self._collect_async(*under_way.popleft(), deliver, deadline))
        while under_way:
            results.append(await self._collect_async(*under_way.popleft(), deliver, deadline))
        return PublishResult.joined(results)

    def _deadline(self, timeout: float | None) -> Deadline:
        if timeout is not None and not seconds("timeout", timeout) > 0:
            raise SettingError("timeout", "must be more than 0 seconds")
        return Deadline(self._timeout if timeout is None else timeout)

    def _collect(self, portion: Portion, reference: Any, deliver: bool, deadline: Deadline) -> PublishResult:
        pause = PAUSE
        while True:
            try:
                result: PublishResult = answer(reference, "the coordinator", deadline.left)
                return self._complete(result)
            except UnavailableError:
                if deadline.left <= pause:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            reference = self._send(portion, deliver, deadline)

    async def _collect_async(
        self, portion: Portion, reference: Any, deliver: bool, deadline: Deadline
    ) -> PublishResult:
        pause = PAUSE
        while True:
            try:
                result: PublishResult = await answer_async(reference, "the coordinator", deadline.left)
                return self._complete(result)
            except UnavailableError:
                if deadline.left <= pause:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            reference = self._send(portion, deliver, deadline)

    def _complete(self, result: PublishResult) -> PublishResult:
        """The columns are mapped into this process before the result is handed on: they live as long as the coordinator."""
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

    def _send(self, portion: Portion, deliver: bool, deadline: Deadline) -> Any:
        coordinator = self._coordinators[next(self._turn) % len(self._coordinators)]
        return coordinator.publish_prepared.remote(
            portion.events, portion.stored, deliver, portion.request, deadline.left
        )

    def _portions(self, events: Any, event_id: str | None, deliver: bool, request: str | None) -> Iterator[Portion]:
        request = new_request() if request is None else request
        for number, part in enumerate(_cut(events)):
            # A repeated publication has the same portions, and so the same names for them.
            own = request if number == 0 else f"{request}/{number}"
            prepared = prepare(part, event_id, own, deliver)
            if len(prepared) <= SMALL:
                yield Portion(prepared, None, own)
            else:
                stored = Stored(ray.put(prepared.batch))
                yield Portion(replace(prepared, batch=None), stored, own)  # type: ignore[arg-type]


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
