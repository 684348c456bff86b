"""What the papers' engines share: clauses coded once (columns/coding.py), events coded per batch, holes settled, numbers made owners.

An engine is a subclass with `_build`, which makes its index from the coded tests, `_match`, which finds the clauses whose hulls admit
an event's codes, and `_trace`, which says how. It sees integers only; kinds, strings, sets, patterns and absence are all codes by then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import CodedTests, code_clauses
from ray_pubsub.columns.coding_state import coded_state, restored_coded
from ray_pubsub.columns.decoding import chosen_tests, decode_clauses
from ray_pubsub.columns.event_codes import EventCodes, encode_events
from ray_pubsub.columns.saved_state import SavedState, State, check_within
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Hits
from ray_pubsub.engines.holes import Holes
from ray_pubsub.engines.plan import SegmentPlan
from ray_pubsub.engines.trace import Traced, column_names, merged, timed
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["BLOCK", "CodedClauses", "CodedSegment"]

BLOCK = 65_536
"""Clauses per block, so that a clause's number within it fits 16 bits."""


class CodedClauses(NamedTuple):
    """Clauses that need no coding: of a saved segment. An engine's own index follows from them, and is built anew."""

    coded: CodedTests
    owners: NDArray[np.int64]

    @classmethod
    def of(cls, clauses: ClauseTable | CodedClauses, vocabulary: Vocabulary) -> CodedClauses:
        if isinstance(clauses, CodedClauses):
            return clauses
        return cls(code_clauses(clauses, vocabulary, sparseness=4), clauses.owners[: clauses.count].copy())

    def state(self, slots: NDArray[np.int64] | None = None) -> State:
        """`slots`: the number that stands for each slot."""
        return {"owners": self.owners if slots is None else slots[self.owners], "coded": coded_state(self.coded)}

    @classmethod
    def restored(cls, state: SavedState, vocabulary: Vocabulary, slots: int) -> CodedClauses:
        owners = state.array("owners", np.int64, None)
        check_within(owners, 0, slots - 1, "owners")
        return cls(restored_coded(state.state("coded"), vocabulary, len(owners)), owners)


class CodedSegment(ABC):
    """Immutable. Clause i has the tests coded.offsets[i]:coded.offsets[i + 1]; each admits the codes low … high of its column, where
    code 0 is absence and space.top[column] the largest code."""

    engine: ClassVar[str]

    def __init__(self, clauses: ClauseTable | CodedClauses, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.coded, self.owners = CodedClauses.of(clauses, vocabulary)
        self._holes = Holes.of(self.coded)
        self._build(self.coded)

    def __len__(self) -> int:
        return len(self.owners)

    @property
    def nbytes(self) -> int:
        coded = self.coded
        return (
            sum(part.nbytes for part in (self.owners, coded.offsets, coded.column, coded.low, coded.high))
            + self._index_bytes()
        )

    def table(self, chosen: NDArray[np.int64] | None = None) -> ClauseTable:
        """The clauses as records again, for merging; or the chosen ones."""
        if chosen is not None:
            return decode_clauses(chosen_tests(self.coded, chosen), self.owners[chosen], self._vocabulary)
        return decode_clauses(self.coded, self.owners, self._vocabulary)

    def match(self, events: EventBatch) -> Hits:
        codes = encode_events(events, self.coded.space, self._vocabulary)
        offsets, numbers = self._match(codes)
        if self._holes is not None:
            self._holes.settle(codes, offsets, numbers)
        return Hits(offsets, self.owners[numbers[: offsets[-1]]])

    def explain(self, events: EventBatch) -> SegmentPlan:
        hits, seconds = timed(self.match, events)
        codes = encode_events(events, self.coded.space, self._vocabulary)
        partitions, traces, verified = self._trace(codes)
        if self._holes is not None:
            for trace in traces:
                trace.settle(self._holes, codes)
        pipelines = merged(trace.pipeline() for trace in traces)
        return SegmentPlan(self.engine, len(self), partitions, pipelines, verified, len(hits.slots), seconds)

    @abstractmethod
    def _build(self, coded: CodedTests) -> None:
        """Makes the engine's own index."""

    @abstractmethod
    def _match(self, codes: EventCodes) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Per event the numbers of the clauses whose hulls admit its codes: (offsets, numbers), both owned by the caller."""

    @abstractmethod
    def _trace(self, codes: EventCodes) -> Traced:
        """`_match` of a single event, step by step."""

    def _named(self, *columns: Any) -> str:
        return column_names(self.coded.space, self._vocabulary, columns)

    @abstractmethod
    def _index_bytes(self) -> int:
        """Bytes of the engine's own index."""
