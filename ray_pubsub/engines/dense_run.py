"""The dense segments of an index, asked together about one event (kernels/dense_run.py)."""

from __future__ import annotations

import threading
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.event_codes import LanePlan, plan_for, string_codes
from ray_pubsub.engines.contract import Hits
from ray_pubsub.engines.dense_segment import DenseSegment, dense_buffers
from ray_pubsub.kernels.dense_run import FIELDS, match_dense_run
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["DenseRun", "no_run"]

MOST_LAYOUTS = 1024
NO_TEXTS = np.empty((0, 0), dtype=np.int32)
NO_SEGMENTS = np.empty((0, FIELDS), dtype=np.int64)
NUMBERS = count()


class _Layout(NamedTuple):
    """What is the same for all events of a layout."""

    segments: NDArray[np.int64]
    plans: list[LanePlan]
    """Whose arrays `segments` has by their addresses."""
    texts: list[tuple[int, int]]
    """Segment and lane of strings that are coded beforehand."""


class _Scratch(threading.local):
    """A thread's, for all runs: a run is made whenever a block is, and fresh memory is slow."""

    def __init__(self) -> None:
        self._lines = 0
        self._buffers: tuple[NDArray[Any], ...] = ()

    def of(self, lines: int) -> tuple[NDArray[Any], ...]:
        if lines > self._lines:
            self._lines, self._buffers = lines, dense_buffers(lines)
        return self._buffers


SCRATCH = _Scratch()


class DenseRun:
    """Immutable. Segments whose rows carry their owners."""

    def __init__(self, segments: list[DenseSegment]) -> None:
        self._segments = segments = sorted(segments, key=len, reverse=True)  # the most matches first: see SPARE
        self._fields: list[list[int]] = []
        self._kept: list[NDArray[Any]] = []  # alive, as the kernel knows them by their addresses
        for segment in segments:
            numbers, tables = segment.fields()
            space = segment.space
            arrays = [np.ascontiguousarray(array) for array in (*tables, *space.arrays)]
            self._kept += arrays
            addresses = [array.ctypes.data for array in arrays]
            self._fields.append([*numbers, *addresses, len(space.base), len(space.operand_whole)])
        self.lines: int = max(segment.lines for segment in segments)
        self._layouts: dict[Any, _Layout | None] = {}
        self._number = next(NUMBERS)

    def match(self, events: EventBatch) -> Hits | None:
        """Of a batch of one event; None if it has to be matched segment by segment: if a pattern is asked of it, say."""
        arguments = self.arguments(events)
        if arguments is None:
            return None
        slots = match_dense_run(*arguments, *SCRATCH.of(self.lines))
        return Hits(np.array([0, len(slots)]), slots)

    def arguments(self, events: EventBatch) -> tuple[Any, ...] | None:
        """What the kernel takes but for scratch: the segments and the event. None as for `match`."""
        cells = events.cells()
        # The batch knows the run by its number: it may outlive the segments, which are not to be kept alive by it.
        known = events.plans.get(self._number, self)
        layout: _Layout | None = self._layout(events) if known is self else known
        if layout is None or len(cells.whole) != len(events.lanes):
            return None
        texts = self._texts(events, layout) if layout.texts else NO_TEXTS
        return layout.segments, cells.whole, cells.rest, texts

    def _layout(self, events: EventBatch) -> _Layout | None:
        key = events.layout()
        if key not in self._layouts:
            if len(self._layouts) >= MOST_LAYOUTS:
                self._layouts.clear()
            self._layouts[key] = self._read_layout(events)
        if len(events.plans) >= MOST_LAYOUTS:
            events.plans.clear()
        layout = events.plans[self._number] = self._layouts[key]
        return layout

    def _read_layout(self, events: EventBatch) -> _Layout | None:
        plans = [plan_for(events, segment.space, segment.vocabulary) for segment in self._segments]
        if any(plan.patterns for plan in plans):
            return None
        rows = [
            [*fields, plan.track.ctypes.data, plan.column.ctypes.data]
            for fields, plan in zip(self._fields, plans, strict=True)
        ]
        texts = [(place, lane) for place, plan in enumerate(plans) for lane in plan.strings]
        return _Layout(np.array(rows, dtype=np.int64).reshape(-1, FIELDS), plans, texts)

    def _texts(self, events: EventBatch, layout: _Layout) -> NDArray[np.int32]:
        texts = np.zeros((len(self._segments), len(events.lanes)), dtype=np.int32)
        for place, number in layout.texts:
            lane = events.lanes[number]
            column = int(layout.plans[place].column[number])
            texts[place, number] = string_codes(self._segments[place].space, column, lane)[lane.whole[0]]
        return texts


def no_run(events: EventBatch) -> tuple[Any, ...]:
    """As `arguments`, of no segments."""
    cells = events.cells()
    return NO_SEGMENTS, cells.whole, cells.rest, NO_TEXTS
