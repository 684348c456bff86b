"""A block of clauses in pivot lists (kernels/pivot_lists.py): for sparse clauses, and for any that a dense engine cannot take."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import CodedTests, CodeSpace, code_clauses
from ray_pubsub.columns.coding_state import check_codes, pieces_state, restored_pieces, restored_space, space_state
from ray_pubsub.columns.decoding import chosen_tests, decode_clauses
from ray_pubsub.columns.event_codes import encode_events
from ray_pubsub.columns.saved_state import SavedState, State, check, check_offsets, check_within
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
        self._base, spread = _directory_places(space)
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

    def state(self, slots: NDArray[np.int64] | None = None) -> State:
        """`slots`: the number that stands for each slot."""
        check = self._check
        if slots is not None:
            check = check.copy()
            check[1::2] = slots[self.owners]
        return {
            "space": space_state(self.space),
            "directory": self._directory,
            "universal": self._universal,
            "check": check,
            "offsets": self._test_offsets,
            "column": self._test_column,
            "low": self._test_low,
            "high": self._test_high,
            "pieces": self._test_pieces,
            **pieces_state(*self._pieces),
        }

    @classmethod
    def restored(cls, state: SavedState, vocabulary: Vocabulary, slots: int) -> PivotBlock:
        self = cls.__new__(cls)
        self._vocabulary = vocabulary
        self.space = restored_space(state.state("space"), vocabulary)
        self._base, spread = _directory_places(self.space)
        self._check = state.array("check", np.int32, None)
        count, odd = divmod(len(self._check), 2)
        check(not odd, "half a clause")
        self.owners = self._check[1::2]
        check_within(self.owners, 0, slots - 1, "owners")
        check_within(self._check[::2], 0, self.space.columns + 1, "columns")
        self._universal = state.number("universal", 0, count)
        self._directory = state.array("directory", np.uint32, 4 * spread)
        _check_directory(self._directory, self._base, self._universal)
        self._test_column = state.array("column", (np.uint16, np.int32), None)
        tests, codes = len(self._test_column), (np.uint8, np.uint16, np.int32)
        self._test_offsets = state.array("offsets", np.uint32, count + 1)
        check_offsets(self._test_offsets, tests, "clauses' tests")
        self._test_low, self._test_high = state.array("low", codes, tests), state.array("high", codes, tests)
        self._test_pieces = state.array("pieces", np.int32, tests if len(state.array("pieces", np.int32, None)) else 0)
        self._pieces = restored_pieces(state)
        check_codes(self.space, self._test_column, self._test_low, self._test_high, self._test_pieces, self._pieces)
        self._scratch = threading.local()
        return self

    def table(self, chosen: NDArray[np.int64] | None = None) -> ClauseTable:
        """The clauses as records again, for merging; or the chosen ones."""
        owners = self.owners if chosen is None else self.owners[chosen]
        return decode_clauses(self._coded(chosen), owners.astype(np.int64), self._vocabulary)

    def _coded(self, chosen: NDArray[np.int64] | None = None) -> CodedTests:
        """Chosen before they are widened: a save reads blocks back part by part."""
        pieces = self._test_pieces if len(self._test_pieces) else None
        offsets = self._test_offsets.astype(np.int64)
        narrow: Any = self._test_column, self._test_low, self._test_high
        column, low, high = narrow
        coded = CodedTests(self.space, offsets, column, low, high, pieces, *self._pieces)
        coded = coded if chosen is None else chosen_tests(coded, chosen)
        column, low, high = (part.astype(np.int32) for part in (coded.column, coded.low, coded.high))
        return replace(coded, column=column, low=low, high=high)

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


def _directory_places(space: CodeSpace) -> tuple[NDArray[np.int64], int]:
    """Where each column begins in the directory, and how many places there are in all."""
    ends = np.cumsum(space.top.astype(np.int64) + 1)
    return np.concatenate([[0], ends])[:-1], int(ends[-1]) if len(ends) else 0


def _check_directory(directory: NDArray[np.uint32], base: NDArray[np.int64], universal: int) -> None:
    """Runs of different columns have no clause in common: an event meets none twice, so there is room for all it meets."""
    if not len(directory):
        return
    equal, behind, first, last = directory.reshape(-1, 4).T
    check(equal[0] == 0 and (equal[1:] == behind[:-1]).all() and (equal <= behind).all(), "equality runs overlap")
    check((first[1:] >= first[:-1]).all() and (last[1:] >= last[:-1]).all(), "range runs do not ascend")
    ends = np.append(base[1:] - 1, len(last) - 1)
    check(behind[-1] <= first[0] and (last[ends[:-1]] <= first[base[1:]]).all(), "range runs overlap")
    check(last[-1] <= universal, "runs go beyond the last pivot")
