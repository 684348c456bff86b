"""Selects some of a batch's events, as a new batch or one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.model.event_batch import EventBatch, Lane
from ray_pubsub.model.single_event import SingleEvent
from ray_pubsub.model.values import Kind, Value

__all__ = ["LanesByName", "LazyEvent", "select_events"]

LanesByName = dict[str, list[Lane]]


def select_events(batch: EventBatch, rows: NDArray[np.int64]) -> EventBatch:
    """Returns the events of these rows, which must ascend, renumbered; the batch itself if these are all."""
    if len(rows) == batch.size and batch.positions is None:
        return batch
    place = np.full(batch.size, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    lanes = [_selected(lane, rows, place) for lane in batch.lanes]
    return EventBatch(len(rows), [lane for lane in lanes if len(lane)], np.arange(len(rows)), _moment=batch._moment)


def _selected(lane: Lane, rows: NDArray[np.int64], place: NDArray[np.int64]) -> Lane:
    chosen, new_rows = rows, None
    if lane.rows is not None:
        moved = place[lane.rows]
        chosen = np.flatnonzero(moved >= 0)
        new_rows = moved[chosen].astype(np.int32)
    rest = None if lane.rest is None else lane.rest[chosen]
    return Lane(lane.attribute, lane.kind, new_rows, lane.whole[chosen], rest, lane.strings, lane.lists)


class LazyEvent(Mapping[str, Value]):
    """One event of a batch, of which only the attributes that someone asks for are read. `also`: values that are not in the batch."""

    def __init__(self, batch: EventBatch, lanes: LanesByName, row: int, also: dict[str, Value]) -> None:
        self._batch, self._lanes, self._row, self._read = batch, lanes, row, dict[str, Value | None](also)

    @staticmethod
    def lanes_of(batch: EventBatch) -> LanesByName:
        """Returns the lanes of each attribute, for all events of a batch; a single event needs none."""
        found: LanesByName = {}
        if not isinstance(batch, SingleEvent):
            for lane in batch.lanes:
                found.setdefault(lane.attribute, []).append(lane)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self._read:
            self._read[name] = self._value(name)
        value = self._read[name]
        return default if value is None else value

    def __getitem__(self, name: str) -> Value:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        found: Value = value
        return found

    def __iter__(self) -> Iterator[str]:
        names = self._batch.names if isinstance(self._batch, SingleEvent) else self._lanes
        return (name for name in {**self._read, **dict.fromkeys(names)} if self.get(name) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _value(self, name: str) -> Value | None:
        batch, row = self._batch, self._row
        if isinstance(batch, SingleEvent):
            if name not in batch.names:
                return None
            place = batch.names.index(name)
            return Value(Kind(batch.kinds[place]), batch.plains[place])
        for lane in self._lanes.get(name, ()):
            position = row if lane.rows is None else int(np.searchsorted(lane.rows, row))
            if lane.rows is None or (position < len(lane.rows) and lane.rows[position] == row):
                return Value(lane.kind, lane.plain(position))
        return None
