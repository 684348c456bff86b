"""Keeps a few of the latest events, so that the choice of an engine can be judged by what events do and not by what is supposed of them.

They are copies: nothing of a batch, which may be large, is kept alive."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.model.event_batch import EventBatch, Flags, Lane, joined_lanes
from ray_pubsub.model.text_column import TextColumn
from ray_pubsub.model.values import Kind

__all__ = ["RecentEvents"]

MOST, PART, FEWEST = 128, 32, 32
"""How many events are kept; the most that are taken of a batch; the fewest from which anything is concluded."""
PAUSE = 512
"""The number of events between two that are kept, on average, once there are enough: to copy one takes as long as some matches."""
MOST_AT_ONCE = 64
"""Of single events with more attributes, fewer are kept at the beginning too."""
MOST_LANES = 4096
"""Of wider batches nothing is kept: copying them would take longer than matching."""


class RecentEvents:
    """A sample of the stream. Concurrent readers may lose an event."""

    def __init__(self) -> None:
        self._parts: deque[EventBatch] = deque()
        self._count = 0
        self._next = 0

    def observe(self, events: EventBatch, seen: int) -> None:
        """`seen`: the number of events so far."""
        if seen < self._next or not events.size:
            return
        attributes = len(events.attributes())
        if attributes > MOST_LANES:
            return
        part = _copied(events, np.arange(0, events.size, max(1, events.size // PART))[:PART])
        self._parts.append(part)
        self._count += part.size
        while self._count - self._parts[0].size >= MOST:
            self._count -= self._parts.popleft().size
        pause = 0 if self._count < MOST else PAUSE
        if events.size == 1 and attributes > MOST_AT_ONCE:  # each attribute is copied alone
            pause = max(pause, min(PAUSE, attributes))
        self._next = seen + pause * part.size

    def forget(self) -> None:
        """Forgets what came before the latest events, which are of another stream."""
        parts: deque[EventBatch] = deque()
        if self._parts:
            parts.append(self._parts[-1])
        self._parts, self._count, self._next = parts, sum(part.size for part in parts), 0

    def sample(self) -> EventBatch | None:
        """Returns the events; None if there are too few."""
        parts = list(self._parts)
        size = sum(part.size for part in parts)
        if size < FEWEST:
            return None
        lanes: dict[tuple[str, Kind], list[Lane]] = {}
        flags, first = [], 0
        for part in parts:
            for lane in part.lanes:
                assert lane.rows is not None
                lanes.setdefault((lane.attribute, lane.kind), []).append(
                    replace(lane, rows=lane.rows + np.int32(first))
                )
            if part.flags is not None:
                flags.append((part.flags.rows + np.int32(first), part.flags.numbers))
            first += part.size
        found = EventBatch(size, list(map(joined_lanes, lanes.values())), np.arange(size))
        if flags:
            rows, numbers = (np.concatenate(each) for each in zip(*flags, strict=True))
            found.flags = Flags(rows, numbers)
        return found


def _copied(events: EventBatch, rows: NDArray[np.int64]) -> EventBatch:
    """Returns a batch of these rows, which ascend."""
    place = np.full(events.size, -1, np.int32)
    place[rows] = np.arange(len(rows), dtype=np.int32)
    lanes = [copied for lane in events.lanes if (copied := _copied_lane(lane, place, rows)) is not None]
    part = EventBatch(len(rows), lanes, np.arange(len(rows)))
    if events.flags is not None:
        kept = place[events.flags.rows] >= 0
        part.flags = Flags(place[events.flags.rows[kept]], events.flags.numbers[kept])
    return part


def _copied_lane(lane: Lane, place: NDArray[np.int32], rows: NDArray[np.int64]) -> Lane | None:
    """Returns the cells of the rows; None if there are none, or if they are lists, which no engine reads."""
    if lane.kind == Kind.LIST:
        return None
    cells, target = rows, np.arange(len(rows), dtype=np.int32)
    if lane.rows is not None:
        cells = np.flatnonzero(place[lane.rows] >= 0)
        target = place[lane.rows[cells]]
    if not len(cells):
        return None
    whole = lane.whole[cells]
    strings = None
    if lane.strings is not None:
        strings = TextColumn(None, [lane.strings.raw(int(number)).decode() for number in whole.tolist()])
        whole = np.arange(len(cells))
    rest = None if lane.rest is None else lane.rest[cells]
    return replace(lane, rows=target, whole=whole, rest=rest, strings=strings)
