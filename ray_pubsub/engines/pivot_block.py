"""A block of clauses in pivot lists (kernels/pivot_lists.py): for sparse clauses, and for any that a dense engine cannot take."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import CodedTests, code_clauses
from ray_pubsub.columns.decoding import chosen_tests, decode_clauses
from ray_pubsub.columns.event_codes import encode_events
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Hits
from ray_pubsub.engines.pivot_trace import trace_pivots
from ray_pubsub.engines.plan import SegmentPlan
from ray_pubsub.engines.trace import timed
from ray_pubsub.kernels import pivot_lists
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["PivotBlock"]


class PivotBlock:
    """Immutable. `match` may run in several threads at once: scratch is per thread."""

    def __init__(
        self, table: ClauseTable, vocabulary: Vocabulary, frequency: NDArray[np.float64] | None = None
    ) -> None:
        """`frequency`: per attribute number, the part of events that carry it; by default all alike."""
        coded = code_clauses(table, vocabulary, sparseness=4)
        self._vocabulary = vocabulary
        self.space = space = coded.space
        self._top = space.top
        self._base = np.concatenate([[0], np.cumsum(space.top.astype(np.int64) + 1)])[:-1]
        spread = int((space.top.astype(np.int64) + 1).sum())
        pieces = np.empty(0, np.int32) if coded.pieces is None else coded.pieces
        keys = np.empty(table.count, dtype=np.int64)
        second = np.empty(table.count, dtype=np.int32)
        weights = np.ones(space.columns)
        if frequency is not None:
            known = space.attributes < len(frequency)
            weights[: len(space.attributes)][known] = frequency[space.attributes[known]] + 1e-9
        pivot_lists.choose_pivots(
            coded.offsets,
            coded.column,
            coded.low,
            coded.high,
            pieces,
            space.top,
            weights,
            self._base,
            spread,
            keys,
            second,
        )
        order, starts = pivot_lists.count_order(keys, 3 * spread + 1)
        self._directory = np.zeros(4 * spread, dtype=np.uint32)
        pivot_lists.fill_directory(starts, self._base, space.top, self._directory)
        self._universal = int(starts[3 * spread])
        tests = len(coded.column)
        self._check = np.empty(2 * table.count, dtype=np.int32)
        self._test_offsets = np.empty(table.count + 1, dtype=np.uint32)
        self._test_column = np.empty(tests, dtype=np.uint16 if space.columns < 2**16 else np.int32)
        small = (
            np.uint8 if spread == 0 or space.top.max() < 2**8 else (np.uint16 if space.top.max() < 2**16 else np.int32)
        )
        self._test_low, self._test_high = np.empty(tests, dtype=small), np.empty(tests, dtype=small)
        self._test_pieces = np.empty(len(pieces), dtype=np.int32)
        pivot_lists.fill_tests(
            order, coded.offsets, coded.column, coded.low, coded.high, pieces, second, table.owners,
            self._test_offsets, self._test_column, self._test_low, self._test_high, self._test_pieces, self._check,
        )  # fmt: skip
        self._pieces = (coded.piece_offsets, coded.piece_low, coded.piece_high)
        self.owners: NDArray[Any] = self._check[1::2]
        self._scratch = threading.local()

    def __len__(self) -> int:
        return len(self.owners)

    @property
    def nbytes(self) -> int:
        arrays = [value for value in vars(self).values() if isinstance(value, np.ndarray)]
        arrays += [
            value
            for value in (getattr(self.space, name) for name in self.space.__slots__)
            if isinstance(value, np.ndarray)
        ]
        return sum(array.nbytes for array in arrays)

    def table(self, chosen: NDArray[np.int64] | None = None) -> ClauseTable:
        """The clauses as records again, for merging; or the chosen ones."""
        coded, owners = self._coded(), self.owners
        if chosen is not None:
            coded, owners = chosen_tests(coded, chosen), owners[chosen]
        return decode_clauses(coded, owners.astype(np.int64), self._vocabulary)

    def _coded(self) -> CodedTests:
        pieces = self._test_pieces if len(self._test_pieces) else None
        low, high = self._test_low.astype(np.int32), self._test_high.astype(np.int32)
        offsets, column = self._test_offsets.astype(np.int64), self._test_column.astype(np.int32)
        return CodedTests(self.space, offsets, column, low, high, pieces, *self._pieces)

    def match(self, events: EventBatch) -> Hits:
        """Owners of the clauses that hold, per event; an owner with several clauses may come more than once."""
        codes = encode_events(events, self.space, self._vocabulary)
        presence, values, candidates = self._buffers()
        offsets = np.zeros(events.size + 1, dtype=np.int64)
        out = np.empty(max(1024, 64 * events.size), dtype=np.int64)
        event = 0
        while event < events.size:
            event, needed = pivot_lists.match_events(
                event, codes.offsets, codes.column, codes.code, self._base, self._directory, self._universal, self._check,
                self._test_offsets, self._test_column, self._test_low, self._test_high, self._test_pieces, *self._pieces,
                presence, values, candidates, offsets, out,
            )  # fmt: skip
            if event < events.size:
                out = np.concatenate([out, np.empty(len(out) + needed, dtype=np.int64)])
        return Hits(offsets, out[: offsets[-1]])

    def explain(self, events: EventBatch) -> SegmentPlan:
        """How `match` goes about a batch of one event."""
        hits, seconds = timed(self.match, events)
        codes = encode_events(events, self.space, self._vocabulary)
        lists = (self._base, self._directory, self._universal, self._check[::2])
        partitions, traces, verified = trace_pivots(codes, self._coded(), *lists, self._vocabulary)
        pipelines = tuple(trace.pipeline() for trace in traces)
        return SegmentPlan("pivot", len(self), partitions, pipelines, verified, len(hits.slots), seconds)

    def _buffers(self) -> tuple[Any, Any, Any]:
        buffers = getattr(self._scratch, "buffers", None)
        if buffers is None:
            columns = self.space.columns
            presence = np.zeros(columns + 2, dtype=np.uint8)
            presence[columns], presence[columns + 1] = pivot_lists.EMIT, pivot_lists.PRESENT
            buffers = (presence, np.zeros(columns, dtype=np.int32), np.empty(len(self) + 1, dtype=np.int64))
            self._scratch.buffers = buffers
        return buffers
