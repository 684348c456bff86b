"""A segment for dense clauses, most of which test many of a few columns.

A single event is matched with clustered bucket bitmaps (kernels/dense/match.py), a batch with masks of events
(engines/dense/transposed.py). A set, or any test of several intervals, is indexed by its hull, and its gaps are checked for the matches
of the hull. Where sets are selective, the cost model prefers pivot lists (engines/pivot/segment.py), which index a set by its values."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import CodedTests, code_clauses
from ray_pubsub.columns.coding_state import restored_space, space_state
from ray_pubsub.columns.decoding import decode_clauses
from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.columns.saved_state import SavedState, State, check, check_within
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.cached_segment import CachedSegment
from ray_pubsub.engines.contract import Frequency, Hits
from ray_pubsub.engines.dense.trace import DenseRows, trace_dense
from ray_pubsub.engines.dense.transposed import MOST_COLUMNS, TransposedMasks
from ray_pubsub.engines.explain.trace import Traced, column_names, values_of
from ray_pubsub.engines.interval_gaps import IntervalGaps
from ray_pubsub.engines.vector_cache.cache import VectorCache
from ray_pubsub.kernels.dense.bitmaps import buckets_of_codes, build_bitmaps, build_outer, build_rows
from ray_pubsub.kernels.dense.bounds import list_tests, scatter_bounds
from ray_pubsub.kernels.dense.check import ClauseBytes
from ray_pubsub.kernels.dense.clustering import (
    EDGES,
    FREE_HIGH,
    FREE_LOW,
    LINE,
    WORD,
    cluster,
    code_bounds,
    largest_rest,
    least_of_codes,
    quantile_edges,
)
from ray_pubsub.kernels.dense.match import match_dense
from ray_pubsub.kernels.dense.segment_group import GROUPS
from ray_pubsub.workspace import workspace

__all__ = ["DenseSegment", "dense_buffers"]

SAMPLE = 64
EDGE_SAMPLE = 16_384
MANY_COLUMNS = 14
"""With more columns, smaller bitmaps are worth more than fewer candidates: 32 buckets are used instead of 64."""
HUGE_PAGE = 1 << 21
FEWEST_TRANSPOSED = 256
"""Batches of at least this many events are transposed: with fewer, the pass over all clauses costs more than it saves."""


class DenseSegment(CachedSegment):
    """Immutable. Clauses are numbered in clustered order, and a clause's row contains its owner's slot, so that a match is known where it
    is decided. If gaps must be checked, or slots need more than 31 bits, the clauses keep their order and the row contains the clause's
    number."""

    engine = "dense"

    def __init__(self, table: ClauseTable, vocabulary: Vocabulary, frequency: Frequency = None) -> None:
        """`frequency` is ignored: an event visits all blocks."""
        coded = code_clauses(table, vocabulary, sparseness=np.inf)
        self.vocabulary = vocabulary
        self.space = coded.space
        self._holes = IntervalGaps.of(coded)
        owners = table.owners[: table.count]
        self._numbered = bool(self._holes is not None or int(owners.max(initial=0)) > FREE_HIGH)
        low, high = _bounds(coded)
        columns, count = low.shape
        self._bucket, self._group = _buckets_of_codes(_buckets(columns)), _buckets_of_codes(GROUPS)
        self._edges = quantile_edges(low, high, max(1, count // min(EDGE_SAMPLE, max(2048, count // 8))))
        narrow = largest_rest(self._edges, self.space.top) < 2**16
        self._least = least_of_codes(self._edges if narrow else np.zeros_like(self._edges))
        words = np.zeros((count, -(-2 * columns // 8)), np.uint64)
        codes = words.view(np.uint8)
        code_bounds(low, high, self._edges, codes)
        order = np.arange(count, dtype=np.int32)
        cluster(codes, words, order, columns, SAMPLE)
        kinds = (np.uint64, np.uint64, np.uint8, np.uint16 if narrow else np.int32)
        arrays = _allocated(*zip(_shapes(columns, count), kinds, strict=True))
        bitmaps, outer, self._rows, self._exact = arrays
        passed, live = np.zeros((columns, GROUPS + 1), np.int64), np.zeros((columns, GROUPS + 1), np.int64)
        build_bitmaps(codes, columns, self._bucket, bitmaps)
        build_outer(codes, columns, self._group, outer, passed, live)
        carried = np.arange(count, dtype=np.int32) if self._numbered else owners.astype(np.int32)
        build_rows(codes, order, carried, low, high, self._least, self._rows, self._exact)
        self._rate = np.cumsum(passed[:, :GROUPS], axis=1) / np.maximum(1, np.cumsum(live[:, :GROUPS], axis=1))
        self._adopt(arrays, owners.copy() if self._numbered else None)

    def _adopt(self, arrays: list[NDArray[Any]], owners: NDArray[np.int64] | None) -> None:
        """Stores the arrays whose addresses the kernels use, and the clauses' owners if rows contain numbers."""
        self._arrays = arrays
        self._carried: NDArray[np.int32] = self._rows[:, -4:].view(np.int32)[:, 0]
        self.owners: NDArray[Any] = self._carried if owners is None else owners
        addresses, steps = ([array.ctypes.data for array in arrays], [array.strides[-2] for array in arrays])
        self._clauses = ClauseBytes._make([*addresses, *steps, self.space.columns])
        self._lines = arrays[0].shape[2] // 8
        self._transposed: TransposedMasks | None = None
        self._transposing = threading.Lock()
        self._cache = VectorCache(self.nbytes)

    @property
    def nbytes(self) -> int:
        transposed = self._transposed
        return (
            sum(array.nbytes for array in self._arrays)
            + (self.owners.nbytes if self._numbered else 0)
            + (transposed.nbytes if transposed is not None else 0)
        )

    def state(self, slots: NDArray[np.int64] | None = None) -> State:
        """`slots` maps each slot to the number that is saved for it."""
        bitmaps, outer, rows, exact = self._arrays
        owners = self.owners if slots is None else slots[self.owners]
        if slots is not None and not self._numbered:
            rows = rows.copy()
            rows[:, -4:].view(np.int32)[:, 0] = owners
        return {
            "kind": self.engine,
            "space": space_state(self.space),
            "edges": self._edges,
            "rate": self._rate,
            "bitmaps": bitmaps,
            "outer": outer,
            "rows": rows,
            "exact": exact,
            "owners": owners if self._numbered else None,
            "holes": None if self._holes is None else self._holes.state(),
        }

    @classmethod
    def restored(
        cls, state: SavedState, vocabulary: Vocabulary, slots: int, frequency: Frequency = None
    ) -> DenseSegment:
        self = cls.__new__(cls)
        self.vocabulary = vocabulary
        self.space = restored_space(state.state("space"), vocabulary)
        columns, count = self.space.columns, len(state.array("rows", np.uint8, None, None))
        bitmaps, outer, rows, exact = (
            state.array(name, kind, *shape)
            for name, kind, shape in zip(
                ("bitmaps", "outer", "rows", "exact"),
                (np.uint64, np.uint64, np.uint8, (np.uint16, np.int32)),
                _shapes(columns, count),
                strict=True,
            )
        )
        # Bit sets must not refer to clauses, or words of clauses, beyond the last.
        check(count > 0 and columns > 0, "no clauses")
        check(not _bits_from(bitmaps, count).any(), "bits of clauses that are not there")
        check(not _bits_from(outer, -(-count // WORD)).any(), "bits of words that are not there")
        self._edges = state.array("edges", np.int32, columns, EDGES)
        self._rate = state.array("rate", np.float64, columns, GROUPS)
        self._least = least_of_codes(self._edges if exact.dtype == np.uint16 else np.zeros_like(self._edges))
        self._bucket, self._group = _buckets_of_codes(_buckets(columns)), _buckets_of_codes(GROUPS)
        self._rows, self._exact, self._numbered = rows, exact, state.has("owners")
        self._holes = IntervalGaps.restored(state.state("holes"), count, columns) if state.has("holes") else None
        check(self._numbered or self._holes is None, "owners are missing")
        self._adopt([bitmaps, outer, rows, exact], state.array("owners", np.int64, count) if self._numbered else None)
        check_within(self.owners, 0, slots - 1, "owners")
        check_within(self._carried, 0, count - 1 if self._numbered else slots - 1, "what rows carry")
        return self

    def table(self, chosen: NDArray[np.int64] | None = None) -> ClauseTable:
        """Returns the clauses as records again, for merging; or the chosen ones."""
        if chosen is None:
            chosen = np.arange(len(self))
        place = np.argsort(self._carried)[chosen] if self._numbered else chosen
        offsets, room = np.zeros(len(place) + 1, np.int64), len(place) * self.space.columns
        column, low, high = (np.empty(room, np.int32) for _ in range(3))
        rows = (self._rows, self._exact, self._least, self.space.top)
        used = list_tests(*rows, place, (offsets, column, low, high))
        column, low, high = column[:used], low[:used], high[:used]
        pieces: tuple[Any, ...] = (None, *_no_pieces())
        if self._holes is not None:
            pieces = self._holes.pieces_of(np.repeat(chosen, np.diff(offsets)), column.astype(np.int64))
        coded = CodedTests(self.space, offsets, column, low, high, *pieces)
        return decode_clauses(coded, self.owners[chosen].astype(np.int64), self.vocabulary)

    @property
    def joint(self) -> bool:
        """True if rows contain the owners: the kernel's answer is then the match, and one call can search several segments."""
        return not self._numbered

    @property
    def lines(self) -> int:
        """The number of cache lines of a bit set of the clauses."""
        return int(self._lines)

    def fields(self) -> tuple[list[int], list[NDArray[Any]]]:
        """Returns the segment's numbers, then the arrays, by address, for kernels/dense/segment_group.py."""
        tables: list[NDArray[Any]] = [self._edges, self._least, self._bucket, self._group, self._rate]
        return list(map(int, self._clauses)), tables

    def _match_codes(self, codes: EventCodes) -> Hits:
        if len(codes.offsets) > FEWEST_TRANSPOSED and 0 < self.space.columns <= MOST_COLUMNS:
            offsets, carried = self._batch_part().match(codes)
        else:
            offsets, carried = self._match_each(codes)
        if not self._numbered:
            return Hits(offsets, carried)
        if self._holes is not None:
            self._holes.settle(codes, offsets, carried)
        return Hits(offsets, self.owners[carried[: offsets[-1]]])

    def _trace(self, codes: EventCodes, matches: int) -> Traced:
        values = values_of(codes, self.space.columns)
        values[values == 0] = FREE_LOW
        traced = trace_dense(
            values, DenseRows(self._rows, self._bounds_at, self._carried if self._numbered else np.arange(len(self))),
            self._edges, self._bucket, self._group, self._rate, lambda columns: column_names(self.space, self.vocabulary, columns),
        )  # fmt: skip
        if self._holes is not None:
            traced.traces[0].settle(self._holes, codes)
        return traced

    def _details(self) -> dict[str, int]:
        """`buckets`: bitmaps per column and side; `gapped`: clauses whose gaps are compared after their hulls."""
        gapped = 0 if self._holes is None else self._holes.clauses
        return {"columns": self.space.columns, "buckets": _buckets(self.space.columns), "gapped": gapped}

    def _batch_part(self) -> TransposedMasks:
        """Created at the first batch, in 0.1 s for a million clauses: an index that only gets single events saves a fifth of its memory."""
        if self._transposed is None:
            with self._transposing:
                if self._transposed is None:
                    self._transposed = TransposedMasks(self._rows, self._exact, self._edges, self._least)
        return self._transposed

    def _match_each(self, codes: EventCodes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        offsets = np.zeros(len(codes.offsets), dtype=np.int64)
        tables = (self._edges, self._least, self._bucket, self._group, self._rate)
        scratch = workspace().take("dense", dense_buffers, self._lines)
        cells = (codes.offsets, codes.column, codes.code)
        carried = match_dense(cells, tables, tuple(self._clauses), scratch, offsets)
        return offsets, carried

    def _bounds_at(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Returns exact lows and highs, by [clause, column], of the clauses at these positions of the clustered order."""
        columns = self.space.columns
        rows, exact, every = self._rows[places], self._exact[places], np.arange(columns)
        low_code, high_code = rows[:, :columns], 255 - rows[:, columns : 2 * columns]
        low = np.where(low_code == 0, FREE_LOW, self._least[every, low_code] + exact[:, :columns])
        high = np.where(high_code == 255, FREE_HIGH, self._least[every, high_code] + exact[:, columns:])
        return low, high


@cache
def _buckets_of_codes(buckets: int) -> NDArray[np.int64]:
    """Returns one array for all segments: otherwise each of an index's small segments would load its own, for every event."""
    found: NDArray[np.int64] = buckets_of_codes(buckets)
    return found


def dense_buffers(lines: int) -> tuple[NDArray[Any], ...]:
    """Creates the buffers of kernels/dense/check.py, DenseScratch."""
    return (
        _aligned(-(-lines // 64) * 64, 64).view(np.uint64),
        np.empty(-(-lines // 64) * 64 + 1, np.int32),
        _aligned(lines * 64 + 64, 64).view(np.uint64),
        np.empty(lines * 8 + 1, np.int32),
    )


def _bounds(coded: CodedTests) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns low[column, clause] and high[column, clause]; a range of all codes of a column means that the clause does not test it."""
    shape = (coded.space.columns, len(coded.offsets) - 1)
    low, high = np.full(shape, FREE_LOW, dtype=np.int32), np.full(shape, FREE_HIGH, dtype=np.int32)
    scatter_bounds(coded.offsets, coded.column, coded.low, coded.high, coded.space.top, low, high)
    return low, high


def _no_pieces() -> tuple[Any, ...]:
    return np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32)


def _buckets(columns: int) -> int:
    return 64 if columns <= MANY_COLUMNS else 32


def _shapes(columns: int, count: int) -> tuple[tuple[int, ...], ...]:
    """Returns the shapes of bitmaps, outer bitmaps, rows and exact bounds."""
    return (
        (columns, _buckets(columns), -(-count // LINE) * 8),
        (columns, GROUPS, -(-count // (LINE * WORD)) * 8),
        (count, -(-(2 * columns + 4) // 32) * 32),
        (count, 2 * columns),
    )


def _bits_from(bitmaps: NDArray[np.uint64], first: int) -> NDArray[np.uint64]:
    """Returns the part of every bit set from bit `first` on."""
    words = bitmaps[:, :, first // 64 :].copy()
    words[:, :, :1] &= ~np.uint64(0) << np.uint64(first % 64)
    return words


def _allocated(*shapes: tuple[tuple[int, ...], Any]) -> list[NDArray[Any]]:
    """Returns arrays in one allocation on a huge page's boundary: with 4 KB pages, random reads miss the TLB."""
    sizes = [int(np.prod(shape)) * np.dtype(kind).itemsize for shape, kind in shapes]
    starts = np.concatenate([[0], np.cumsum([-(-size // 64) * 64 for size in sizes])]).tolist()
    memory = _aligned(starts[-1], HUGE_PAGE if starts[-1] >= HUGE_PAGE else 64)
    return [
        memory[start : start + size].view(kind).reshape(shape)
        for (shape, kind), start, size in zip(shapes, starts, sizes, strict=False)
    ]


def _aligned(size: int, boundary: int) -> NDArray[np.uint8]:
    raw = np.zeros(size + boundary, np.uint8)
    start = -raw.ctypes.data % boundary
    return raw[start : start + size]
