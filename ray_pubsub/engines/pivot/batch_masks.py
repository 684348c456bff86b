"""The part of a pivot block that matches whole batches, one bit per event (kernels/pivot/batch_masks.py)."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.engines.contract import Hits
from ray_pubsub.engines.merge_hits import merge_hits
from ray_pubsub.kernels.dense.transposed_pairs import sort_by_event
from ray_pubsub.kernels.pivot.batch_masks import (
    CHUNK,
    MOST_LINES,
    ROOM,
    WORDS,
    ClauseRows,
    clear_lines,
    fill_lines,
    match_rows,
    ranged_columns,
)
from ray_pubsub.kernels.pivot.pivot_lists import PivotLists
from ray_pubsub.preemption import offer, part_of
from ray_pubsub.workspace import workspace

__all__ = ["BatchMasks"]

PAIRS = 1 << 20
"""Room for matches before they are sorted by event. When it is full, its content becomes a sorted run and the room is reused."""
CLAUSE, NUMBER, CODE = 20, 3, 1
"""Approximate nanoseconds in a chunk: for a clause, for a number in its row, for a code that has lines."""

CACHED_LINES = 8192
"""Lines that fit the second cache."""


Cells: TypeAlias = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
"""The cells of events: offsets, columns, codes."""


class BatchMasks:
    """Matches batches against the rows of a block, which it reads and does not copy. Immutable."""

    def __init__(self, lists: PivotLists, owners: NDArray[Any], top: NDArray[np.int32]) -> None:
        ranged = np.zeros(len(top), np.bool_)
        ranged_columns(lists.words, len(owners), ranged)
        self._lists = lists
        self._rows = rows = ClauseRows(lists.words, np.ascontiguousarray(owners, np.int32), lists.base, top, ranged)
        self._most_lines = int((np.minimum(top, CHUNK) * (1 + ranged)).sum())
        self._plain = tuple(rows)  # passing NamedTuples to a kernel takes 30 µs

    def cost(self, events: int) -> float:
        """Returns about how many nanoseconds an event of a batch takes, beside those for its matches."""
        codes = len(self._lists.bucket) + CHUNK * len(self._rows.top)
        number = NUMBER if self._most_lines <= CACHED_LINES else 3 * NUMBER
        chunk = CLAUSE * len(self._rows.owners) + number * len(self._rows.words) + CODE * codes
        return -(-events // CHUNK) * chunk / events

    def match(self, cells: Cells) -> Hits | None:
        """Returns the owners of the clauses that hold, for each event; None if the events have too many different values."""
        events = len(cells[0]) - 1
        lines = self._lines()
        parts: list[Hits] = []
        for first in range(0, events, CHUNK):
            count = min(CHUNK, events - first)
            try:
                if not fill_lines(first, count, cells, self._plain, lines):
                    return None
                parts.append(self._match_chunk(count, lines))
            finally:
                clear_lines(count, self._plain, lines)
        if len(parts) == 1:
            return parts[0]
        counts = np.concatenate([np.diff(part.offsets) for part in parts])
        return Hits(np.concatenate([[0], np.cumsum(counts)]), np.concatenate([part.slots for part in parts]))

    def _match_chunk(self, count: int, lines: tuple[NDArray[Any], ...]) -> Hits:
        pairs = workspace().take("pairs", _pairs, PAIRS + ROOM)
        runs: list[Hits] = []
        position, clauses, made = np.zeros(2, np.int64), len(self._rows.owners), 0
        part = part_of(clauses, count)
        while position[0] < clauses:
            offer()
            end = min(clauses, int(position[0]) + part)
            rows = self._plain if end == clauses else tuple(self._rows._replace(owners=self._rows.owners[:end]))
            made += match_rows(position, count, rows, lines, pairs[made:])
            if position[0] == clauses or position[0] < end:
                offsets, numbers = np.empty(count + 1, np.int64), np.empty(made, np.int64)
                sort_by_event(pairs[:made], offsets, numbers)
                runs.append(Hits(offsets, numbers))
                made = 0
        return merge_hits(runs, count)

    def _lines(self) -> tuple[NDArray[Any], ...]:
        """Returns this thread's EventLines, shared by all blocks. `equal` is left zeroed."""
        columns, spread = len(self._rows.top), len(self._lists.bucket)
        codes = workspace().take(("codes of a chunk", columns), _codes, columns)
        equal = workspace().take("lines of codes", _numbers, spread)
        below = workspace().take("lines below codes", _numbers, spread + columns)
        table = workspace().take("lines", _table, min(MOST_LINES, 1 + 2 * columns * CHUNK))
        return codes, equal, below, table


def _pairs(size: int) -> NDArray[np.uint64]:
    return np.empty(size, np.uint64)


def _codes(columns: int) -> NDArray[np.int32]:
    return np.zeros((columns, CHUNK), np.int32)


def _numbers(size: int) -> NDArray[np.uint16]:
    return np.zeros(size, np.uint16)


def _table(lines: int) -> NDArray[np.uint64]:
    """Returns an array that begins at a cache line."""
    raw = np.empty(min(lines, MOST_LINES) * WORDS + 8, np.uint64)
    start = -raw.ctypes.data % 64 // 8
    return raw[start : start + min(lines, MOST_LINES) * WORDS].reshape(-1, WORDS)
