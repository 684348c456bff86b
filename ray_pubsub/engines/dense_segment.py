"""Dense clauses, most of which test many of a few columns: clustered bucket bitmaps for an event (kernels/dense_match.py), masks of events
for a batch (engines/transposed.py)."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import CodedTests, code_clauses
from ray_pubsub.columns.decoding import decode_clauses
from ray_pubsub.columns.event_codes import EventCodes, encode_events
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Hits
from ray_pubsub.engines.holes import Holes
from ray_pubsub.engines.transposed import MOST_COLUMNS, TransposedMasks
from ray_pubsub.kernels.bitmaps import BLOCK_WORDS, buckets_of_codes, build_bitmaps, build_outer, build_rows
from ray_pubsub.kernels.bounds import scatter_bounds
from ray_pubsub.kernels.clustering import FREE_HIGH, FREE_LOW, WORD, cluster, code_bounds, quantile_edges
from ray_pubsub.kernels.dense_match import match_dense
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["DenseSegment"]

BLOCK = BLOCK_WORDS * WORD
GROUPS = 128
SAMPLE = 64
EDGE_SAMPLE = 16_384
MANY_COLUMNS = 14
"""Above, smaller bitmaps beat fewer candidates: 32 buckets instead of 64."""
HUGE_PAGE = 1 << 21
FEWEST_TRANSPOSED = 160
"""Events from which on a batch is transposed. Both ways cost the same at 190 events on the standard workload W1, at 100 on W2."""


class DenseSegment:
    """Immutable. All its blocks share one coding, so an event is coded once."""

    def __init__(self, table: ClauseTable, vocabulary: Vocabulary) -> None:
        coded = code_clauses(table, vocabulary, sparseness=np.inf)
        self._vocabulary = vocabulary
        self.space = coded.space
        self.owners: NDArray[np.int64] = table.owners[: table.count].copy()
        self._holes = Holes.of(coded)
        low, high = _bounds(coded)
        columns, count = low.shape
        self._buckets = 64 if columns <= MANY_COLUMNS else 32
        self._bucket, self._group = buckets_of_codes(self._buckets), buckets_of_codes(GROUPS)
        self._edges = quantile_edges(low, high, max(1, count // EDGE_SAMPLE))
        words = np.zeros((count, -(-2 * columns // 8)), np.uint64)
        codes = words.view(np.uint8)
        code_bounds(low, high, self._edges, codes)
        order = np.arange(count, dtype=np.int32)
        cluster(codes, words, order, columns, SAMPLE)
        passed, live = np.zeros((columns, GROUPS + 1), np.int64), np.zeros((columns, GROUPS + 1), np.int64)
        self._blocks = [
            _Block(
                codes[start : start + BLOCK],
                order[start : start + BLOCK],
                low,
                high,
                self._bucket,
                self._group,
                passed,
                live,
            )
            for start in range(0, count, BLOCK)
        ]
        self._rate = np.cumsum(passed[:, :GROUPS], axis=1) / np.maximum(1, np.cumsum(live[:, :GROUPS], axis=1))
        self._addresses = np.array([block.addresses for block in self._blocks], dtype=np.int64)
        self._scratch = threading.local()
        self._transposed: TransposedMasks | None = None
        self._transposing = threading.Lock()

    def __len__(self) -> int:
        return len(self.owners)

    @property
    def nbytes(self) -> int:
        transposed = self._transposed
        return (
            self.owners.nbytes
            + sum(block.memory.nbytes for block in self._blocks)
            + (transposed.nbytes if transposed is not None else 0)
        )

    def table(self) -> ClauseTable:
        """The clauses as records again, for merging."""
        columns = self.space.columns
        exact = np.concatenate([block.exact for block in self._blocks])
        number = np.concatenate([block.numbers for block in self._blocks])
        low, high = np.empty_like(exact[:, :columns]), np.empty_like(exact[:, :columns])
        low[number], high[number] = exact[:, :columns], exact[:, columns:]
        tested = (low != FREE_LOW) | (high != FREE_HIGH)
        offsets = np.concatenate([[0], np.cumsum(tested.sum(axis=1))]).astype(np.int64)
        clause, column = np.nonzero(tested)
        lows = np.where(low[clause, column] == FREE_LOW, 0, np.maximum(low[clause, column], 1))
        highs = np.minimum(high[clause, column], self.space.top[column])
        pieces, *parts = self._holes.pieces_of(clause, column) if self._holes else (None, *_no_pieces())
        coded = CodedTests(self.space, offsets, column.astype(np.int32), lows, highs, pieces, *parts)
        return decode_clauses(coded, self.owners, self._vocabulary)

    def match(self, events: EventBatch) -> Hits:
        """Owners of the clauses that hold, per event; an owner with several clauses may come more than once."""
        codes = encode_events(events, self.space, self._vocabulary)
        if events.size >= FEWEST_TRANSPOSED and 0 < self.space.columns <= MOST_COLUMNS:
            offsets, numbers = self._batch_part().match(codes)
        else:
            offsets, numbers = self._match_each(codes)
        if self._holes is not None:
            self._holes.settle(codes, offsets, numbers)
        return Hits(offsets, self.owners[numbers[: offsets[-1]]])

    def _batch_part(self) -> TransposedMasks:
        """Made when first needed, in 0.1 s for a million clauses: an index that only sees single events saves a fifth of its memory."""
        if self._transposed is None:
            with self._transposing:
                if self._transposed is None:
                    blocks = self._blocks
                    self._transposed = TransposedMasks(
                        [block.rows for block in blocks], [block.exact for block in blocks], self._edges
                    )
        return self._transposed

    def _match_each(self, codes: EventCodes) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        events = len(codes.offsets) - 1
        offsets = np.zeros(events + 1, dtype=np.int64)
        *buffers, one_out = self._buffers()
        out = one_out if events == 1 else np.empty(len(self) + 1 + 1024 * (events - 1), dtype=np.int32)
        event = 0
        while event < events:
            event = match_dense(
                event, codes.offsets, codes.column, codes.code, self._edges, self._bucket, self._group, self._rate,
                self._addresses, self._buckets, GROUPS, len(self), *buffers, offsets, out,
            )  # fmt: skip
            if event < events:
                out = np.concatenate([out, np.empty(len(out), dtype=np.int32)])
        return offsets, out[: offsets[-1]]

    def _buffers(self) -> tuple[Any, ...]:
        buffers: tuple[Any, ...] | None = getattr(self._scratch, "buffers", None)
        if buffers is None:
            blocks = len(self._blocks)
            buffers = (
                _aligned(blocks * BLOCK_WORDS * 8 + 64, 64).view(np.uint64),
                np.empty(blocks * 128 + 1, np.int64),
                np.empty(blocks * 128 + 1, np.int32),
                np.empty(blocks * BLOCK_WORDS + 1, np.int32),
                np.empty(len(self) + 1, np.int32),
                np.empty(len(self) * _stride(self.space.columns) // 32 + 2, np.uint32),
                np.empty(
                    len(self) + 1, np.int32
                ),  # a single event's matches: allocating them anew costs as much as the search
            )
            self._scratch.buffers = buffers
        return buffers


class _Block:
    """All arrays in one allocation on a huge page's boundary: with 4 KB pages random reads miss the TLB (95 µs an event, not 65)."""

    def __init__(
        self, codes: NDArray[np.uint8], order: NDArray[np.int32], low: NDArray[np.int32], high: NDArray[np.int32],
        bucket: NDArray[np.int64], group: NDArray[np.int64], passed: NDArray[np.int64], live: NDArray[np.int64],
    ) -> None:  # fmt: skip
        columns, count, buckets = len(low), len(order), int(bucket.max()) + 1
        shapes: list[tuple[tuple[int, ...], Any]] = [
            ((columns, buckets, BLOCK_WORDS), np.uint64),
            ((columns, GROUPS, 16), np.uint64),
            ((count, _stride(columns)), np.uint8),
            ((count, 2 * columns), np.int32),
        ]
        sizes = [int(np.prod(shape)) * np.dtype(kind).itemsize for shape, kind in shapes]
        starts = np.concatenate([[0], np.cumsum([-(-size // 64) * 64 for size in sizes])]).tolist()
        self.memory = _aligned(starts[-1], HUGE_PAGE if starts[-1] >= HUGE_PAGE else 64)
        bitmaps, outer, self.rows, self.exact = (
            self.memory[start : start + size].view(kind).reshape(shape)
            for (shape, kind), start, size in zip(shapes, starts, sizes, strict=False)
        )
        build_bitmaps(codes, columns, bucket, bitmaps)
        build_outer(codes, columns, group, outer, passed, live)
        build_rows(codes, order, columns, low, high, self.rows, self.exact)
        self.numbers: NDArray[np.int32] = self.rows[:, -4:].copy().view(np.int32).reshape(-1)
        self.addresses = [array.ctypes.data for array in (bitmaps, outer, self.rows, self.exact)]


def _bounds(coded: CodedTests) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """low[column, clause], high[column, clause]; the whole of a column's codes is free."""
    shape = (coded.space.columns, len(coded.offsets) - 1)
    low, high = np.full(shape, FREE_LOW, dtype=np.int32), np.full(shape, FREE_HIGH, dtype=np.int32)
    scatter_bounds(coded.offsets, coded.column, coded.low, coded.high, coded.space.top, low, high)
    return low, high


def _no_pieces() -> tuple[Any, ...]:
    return np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32)


def _stride(columns: int) -> int:
    return -(-(2 * columns + 4) // 32) * 32


def _aligned(size: int, boundary: int) -> NDArray[np.uint8]:
    raw = np.zeros(size + boundary, np.uint8)
    start = -raw.ctypes.data % boundary
    return raw[start : start + size]
