"""What a publisher hands over, made ready to travel: columns for the shards, and beside them what only the coordinator needs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from actors.deliverable_rows import beyond_calendar, in_known_zones
from actors.event_content import pack_event
from actors.registry_arguments import check_text
from ray_pubsub.errors import EventError
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.events import arrow_of, read_events
from ray_pubsub.priority.selection import select_events

__all__ = ["PublishedEvents", "new_request", "prepare"]

POSITION_BITS = 20
FEW = 64


@dataclass(slots=True, eq=False)
class PublishedEvents:
    """Events of one publication. `batch` has the good ones only, without ids: those are here."""

    batch: EventBatch
    positions: NDArray[np.int64] | None
    """Of the good ones among all; None if all are good."""
    ids: NDArray[Any]
    given_ids: bool
    """Whether the publisher named them: only then does the same id mean the same event."""
    contents: Any
    """What is delivered of each event: packed ones in a list, or the Arrow table they are rows of; None for nothing."""
    errors: list[EventError] = field(default_factory=list)
    nbytes: int = 0
    few: list[Any] | None = None
    """The good events themselves, if they are few dicts: those are read faster than columns of one value each are unpacked."""

    def __len__(self) -> int:
        return len(self.ids)

    def keys(self) -> list[Any] | None:
        return self.ids.tolist() if self.given_ids else None

    def contents_of(self, events: NDArray[np.int64]) -> Sequence[bytes | None] | None:
        """Packed, for these events, which ascend; None for the others. A list with a place for every event."""
        if self.contents is None or isinstance(self.contents, list):
            return self.contents
        packed: list[bytes | None] = [None] * len(self)
        rows = self.contents.take(events).to_pylist(maps_as_pydicts="lossy")  # of equal keys the last one, as in a dict
        for event, row in zip(events.tolist(), rows, strict=True):
            packed[event] = pack_event(row, event)
        return packed


def new_request() -> str:
    """Names one request, so that it can be repeated without being done twice."""
    return uuid.uuid4().hex


def prepare(events: Any, event_id: str | None, request: str, contents: bool = True) -> PublishedEvents:
    """Reads whatever a publisher has as events. Raises EventError if it is nothing of the kind; single bad events are in `errors`."""
    check_text("request", request)
    if isinstance(events, Mapping):
        events = [events]
    if hasattr(events, "read_all"):
        events = events.read_all()
    if not hasattr(events, "__len__") and hasattr(events, "__iter__"):
        events = list(events)
    batch = read_events(events, event_id)
    ids = batch.input_ids
    if event_id is None:
        # 43 bits of the request and the position: an id of its own for every event, and nothing to make for each.
        first = (xxhash.xxh3_64_intdigest(request.encode()) >> 21) << POSITION_BITS
        ids = np.arange(first, first + batch.input_size)
    kept = _contents(events, batch) if contents else None
    good, positions, errors = batch, batch.positions, batch.errors
    if kept is not None and not isinstance(kept, list) and (unfit := _not_deliverable(kept)):
        positions = np.arange(batch.size) if positions is None else positions
        left = np.flatnonzero(~np.isin(positions, list(unfit)))
        told = {error.position for error in errors}
        errors = [*errors, *(error for position, error in unfit.items() if position not in told)]
        good, positions = select_events(batch, left), positions[left]
    good = EventBatch(good.size, good.lanes, np.zeros(good.size, np.int8))
    few = None
    if isinstance(events, list) and len(events) <= FEW:
        few = events if positions is None else [events[place] for place in positions.tolist()]
    return PublishedEvents(good, positions, ids, event_id is not None, kept, errors, _size(good, kept), few)


def _not_deliverable(table: Any) -> dict[int, EventError]:
    """By position, the events of a table that no mailbox can hold, however well they can be matched."""
    found: dict[int, EventError] = {}
    first = 0
    for part in [table] if isinstance(table, pa.RecordBatch) else table.to_batches():
        for name, rows in beyond_calendar(part):
            for row in (first + np.flatnonzero(rows)).tolist():
                found.setdefault(
                    row, EventError(name, "cannot be delivered: a moment outside the years 1 to 9999", row)
                )
        first += part.num_rows
    return found


def _known_zones(table: Any) -> Any:
    if isinstance(table, pa.RecordBatch):
        return in_known_zones(table)
    parts = [in_known_zones(part) for part in table.to_batches()]
    return pa.Table.from_batches(parts) if parts else table


def _contents(events: Any, batch: EventBatch) -> Any:
    module = type(events).__module__.partition(".")[0]
    if module == "pyarrow":
        return _known_zones(events)
    if module == "pandas" and hasattr(events, "columns"):
        table = arrow_of(events)
        if table is not None:
            return _known_zones(table)
        events = events.to_dict("records")
    bad = {error.position for error in batch.errors}
    return [None if place in bad else pack_event(event, place) for place, event in enumerate(events)]


def _size(batch: EventBatch, contents: Any) -> int:
    size = sum(lane.whole.nbytes + (0 if lane.rest is None else lane.rest.nbytes) for lane in batch.lanes)
    size += sum(sum(map(len, lane.strings)) for lane in batch.lanes if lane.strings)
    if isinstance(contents, list):
        return size + sum(map(len, filter(None, contents)))
    return size + (0 if contents is None else int(contents.nbytes))
