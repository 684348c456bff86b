"""What the papers' engines share: clauses coded once (columns/coding.py), events coded per batch, gaps between intervals checked.

An engine is a subclass with three methods: `_build` builds its index from the coded tests, `_match` finds the clauses whose hulls admit
an event's codes (most engines exclude gaps too: engines/papers/gap_lists.py), and `_trace` explains a match. An engine sees integers
only: kinds, strings, sets, patterns and absence are all codes by then.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import CodedTests
from ray_pubsub.columns.decoding import chosen_tests, decode_clauses
from ray_pubsub.columns.event_codes import EventCodes, encode_events
from ray_pubsub.columns.saved_state import SavedState, State
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.coded_clauses import CodedClauses
from ray_pubsub.engines.contract import Frequency, Hits, Segment
from ray_pubsub.engines.explain.plan import SegmentPlan
from ray_pubsub.engines.explain.trace import Traced, column_names, merged, timed
from ray_pubsub.engines.interval_gaps import IntervalGaps
from ray_pubsub.kernels.papers.coded_arrays import ClauseTests, EventCells
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.workspace import PerThread

__all__ = ["BLOCK", "CodedSegment", "array_bytes", "events_of", "tests_of"]

BLOCK = 65_536
"""Clauses per block, so that a clause's number within it fits 16 bits."""


class CodedSegment(Segment):
    """Immutable. Clause i has the tests coded.offsets[i]:coded.offsets[i + 1]; each admits the codes low … high of its column, where
    code 0 is absence and space.top[column] the largest code. `match` may run in several threads at once: scratch memory is per thread."""

    _toggles_gaps = False
    """Whether `_match` excludes clauses by their gaps (engines/papers/gap_lists.py). Then next to none are compared afterwards."""
    _index: Any = ()
    """The engine's own arrays, a NamedTuple that its kernels take; set by `_build`."""

    def __init__(self, clauses: ClauseTable | CodedClauses, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.coded, self.owners = CodedClauses.of(clauses, vocabulary)
        self._gaps = IntervalGaps.of(self.coded, toggled=self._toggles_gaps)
        self._threads: PerThread[Any] = PerThread()
        self._build(self.coded)

    @classmethod
    def restored(
        cls, state: SavedState, vocabulary: Vocabulary, slots: int, frequency: Frequency = None, **options: Any
    ) -> Self:
        build: Any = cls
        segment: Self = build(CodedClauses.restored(state, vocabulary, slots), vocabulary, frequency, **options)
        return segment

    def state(self, slots: NDArray[np.int64] | None = None) -> State:
        return {"kind": self.engine, **CodedClauses(self.coded, self.owners).state(slots)}

    @property
    def nbytes(self) -> int:
        coded = self.coded
        return array_bytes((self.owners, coded.offsets, coded.column, coded.low, coded.high, self._index))

    def table(self, chosen: NDArray[np.int64] | None = None) -> ClauseTable:
        """Returns the clauses as records again, for merging; or the chosen ones."""
        if chosen is not None:
            return decode_clauses(chosen_tests(self.coded, chosen), self.owners[chosen], self._vocabulary)
        return decode_clauses(self.coded, self.owners, self._vocabulary)

    def match(self, events: EventBatch) -> Hits:
        codes = encode_events(events, self.coded.space, self._vocabulary)
        offsets, numbers = self._match(codes)
        if self._gaps is not None:
            self._gaps.settle(codes, offsets, numbers)
        return Hits(offsets, self.owners[numbers[: offsets[-1]]])

    def explain(self, events: EventBatch) -> SegmentPlan:
        hits, seconds = timed(self.match, events)
        codes = encode_events(events, self.coded.space, self._vocabulary)
        partitions, traces, verified = self._trace(codes)
        if self._gaps is not None:
            for trace in traces:
                trace.settle(self._gaps, codes)
        pipelines = merged(trace.pipeline() for trace in traces)
        return SegmentPlan(self.engine, len(self), partitions, pipelines, verified, len(hits.slots), seconds)

    @abstractmethod
    def _build(self, coded: CodedTests) -> None:
        """Builds the engine's own index."""

    @abstractmethod
    def _match(self, codes: EventCodes) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Returns (offsets, numbers), both owned by the caller: for each event the clauses that may match. Hulls are decided; gaps are
        excluded as far as the engine indexes them, and the remaining gaps are checked afterwards."""

    @abstractmethod
    def _trace(self, codes: EventCodes) -> Traced:
        """Explains `_match` of a single event, step by step."""

    def _named(self, *columns: Any) -> str:
        return column_names(self.coded.space, self._vocabulary, columns)

    def _new_scratch(self) -> Any:
        """Creates the scratch memory that `_match` needs in one thread."""

    def _scratch(self) -> Any:
        """Returns this thread's scratch memory, made when it is first needed."""
        return self._threads.get(self._new_scratch)


def events_of(codes: EventCodes) -> EventCells:
    """Returns the codes as the papers' kernels take them."""
    return EventCells(codes.offsets, codes.column, codes.code)


def tests_of(coded: CodedTests) -> ClauseTests:
    """Returns the tests, by their hulls, as the papers' kernels take them."""
    return ClauseTests(coded.offsets, coded.column, coded.low, coded.high)


def array_bytes(part: Any) -> int:
    """Returns the size of all arrays in nested tuples."""
    if isinstance(part, tuple):
        return sum(array_bytes(each) for each in part)
    return part.nbytes if isinstance(part, np.ndarray) else 0
