"""The part of a dense segment that matches whole batches, one bit per event (kernels/dense/transposed_match.py)."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.kernels.dense.transposed_events import EventBits, code_event_bits
from ray_pubsub.kernels.dense.transposed_match import CHUNK_WORDS, ROOM, TILE, ClauseRows, Scratch, match_groups
from ray_pubsub.kernels.dense.transposed_pairs import sort_by_event
from ray_pubsub.kernels.dense.transposed_rows import GROUP, ROWS, count_quads, list_rows
from ray_pubsub.kernels.index.hits import place_hits
from ray_pubsub.preemption import offer, part_of
from ray_pubsub.workspace import workspace

__all__ = ["MOST_COLUMNS", "TransposedMasks"]

PIECE = 1024
"""The number of events matched at a time; a longer batch is cut. At 512 an event costs 7 to 15 % more, at 4,096 3 to 10 % less, with four
times the memory for masks."""
PAIRS = 1 << 20
"""Room for matches before they are sorted by event. When it is full, its content becomes a sorted run and the room is reused."""
MOST_COLUMNS = 63
"""8 * 64 rows * 2 lanes a column fit 16 bits."""

Number = TypeVar("Number", bound=np.generic)
Matches = tuple[NDArray[np.int64], NDArray[np.int64]]


class TransposedMasks:
    """Immutable. It refers to the blocks' bytes and exact bounds, and adds two bytes for every bound that a clause tests."""

    def __init__(
        self, rows: NDArray[np.uint8], exact: NDArray[Any], edges: NDArray[np.int32], least: NDArray[np.int32]
    ) -> None:
        """`rows` and `exact`: of bytes and of exact bounds, less `least` by [column, code] (kernels/dense/bitmaps.py, build_rows)."""
        columns, count = len(edges), len(rows)
        assert 0 < columns <= MOST_COLUMNS
        quads = np.empty(count, dtype=np.uint8)
        count_quads(rows, columns, quads)
        starts = np.append(np.arange(0, count, GROUP), count)
        first = np.zeros(len(starts), dtype=np.int64)
        first[1:] = 4 * np.cumsum(np.add.reduceat(quads, starts[:-1], dtype=np.int64))
        listed = np.empty(int(first[-1]) + 1, dtype=np.uint16)
        outer = np.empty((len(starts) - 1, 2 * columns), dtype=np.uint8)
        lowest = np.empty_like(outer)
        list_rows(rows, columns, quads, starts, listed, outer, lowest)
        self._kept = (rows, exact)  # the kernel uses their addresses only
        self._edges, self._least = edges, least
        self._rows = ClauseRows(
            listed,
            quads,
            starts,
            first,
            outer,
            lowest,
            rows.ctypes.data,
            rows.shape[1],
            exact.ctypes.data,
            exact.itemsize,
        )

    @property
    def nbytes(self) -> int:
        """Its own bytes, without the blocks'."""
        return sum(part.nbytes for part in self._rows[:6])

    def match(self, codes: EventCodes) -> Matches:
        """Returns what the rows of the matching clauses contain: event i has numbers[offsets[i]:offsets[i + 1]]."""
        events = len(codes.offsets) - 1
        parts = [
            self._match_piece(codes, first, min(PIECE, events - first)) for first in range(0, max(1, events), PIECE)
        ]
        if len(parts) == 1:
            return parts[0]
        counts = np.concatenate([np.diff(offsets) for offsets, _ in parts])
        return np.concatenate([[0], np.cumsum(counts)]), np.concatenate([numbers for _, numbers in parts])

    def _match_piece(self, codes: EventCodes, first: int, events: int) -> Matches:
        """Matches some events. When the room for pairs is full, its content becomes a run sorted by event."""
        bits = self._event_bits(events)
        code_event_bits(first, codes.offsets, codes.column, codes.code, self._edges, self._least, bits)
        scratch, pairs = workspace().take("transposed", _new_scratch, len(self._edges))
        runs: list[Matches] = []
        position, groups, made = np.zeros(3, dtype=np.int64), len(self._rows.outer), 0
        part = part_of(groups, GROUP * events)
        while position[0] < groups:
            offer()
            end = min(groups, int(position[0]) + part)
            rows = self._rows if end == groups else self._rows._replace(outer=self._rows.outer[:end])
            made += match_groups(position, rows, bits, scratch, pairs[made:])
            if position[0] == groups or position[0] < end:
                offsets, numbers = np.empty(events + 1, dtype=np.int64), np.empty(made, dtype=np.int64)
                sort_by_event(pairs[:made], offsets, numbers)
                runs.append((offsets, numbers))
                made = 0
        return runs[0] if len(runs) == 1 else _joined(runs)

    def _event_bits(self, events: int) -> EventBits:
        columns = len(self._edges)
        parts = -(-2 * columns // 32)
        return EventBits(
            rests=np.empty((events, columns), dtype=np.int32),
            keys=np.empty((events, 32 * parts), dtype=np.uint8),
            unsure=np.empty((events, parts), dtype=np.uint32),
            low_row=np.empty((columns, events), dtype=np.uint8),
            passing=np.empty((2 * columns, ROWS, -(-events // 64)), dtype=np.uint64),
        )


def _joined(runs: list[Matches]) -> Matches:
    offsets = np.zeros_like(runs[0][0])
    for run_offsets, _ in runs:
        offsets += run_offsets
    numbers = np.empty(int(offsets[-1]), dtype=np.int64)
    cursor = offsets[:-1].copy()
    for run_offsets, run_numbers in runs:
        place_hits(run_offsets, run_numbers, cursor, numbers)
    return offsets, numbers


def _new_scratch(columns: int) -> tuple[Scratch, NDArray[np.uint64]]:
    """Creates the kernel's buffers: 10 MB for 63 columns. They can be used for blocks with up to this number of columns."""
    scratch = Scratch(
        selected=_aligned(PIECE // 64, np.uint64),
        survivors=_aligned(PIECE, np.int32),
        table=_aligned(2 * columns * ROWS * CHUNK_WORDS, np.uint64),
        counts=_aligned(ROWS * CHUNK_WORDS, np.uint64),
        masks=_aligned(TILE * CHUNK_WORDS, np.uint64),
        filled=_aligned(TILE, np.uint8),
        candidates=_aligned(ROOM, np.uint32),
    )
    return scratch, _aligned(PAIRS + ROOM, np.uint64)


def _aligned(count: int, kind: type[Number]) -> NDArray[Number]:
    """Returns an uninitialised array that begins at a cache line."""
    size = count * np.dtype(kind).itemsize
    raw = np.empty(size + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(kind)
