"""Selects some of a batch's events as a new batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.model.event_batch import EventBatch, Lane

__all__ = ["select_events"]


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
