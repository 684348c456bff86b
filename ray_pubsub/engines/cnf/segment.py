"""A segment of subscriptions that are conjunctions of disjunctions: coded like clauses, found by engines/cnf/conjunctive_index.py.

A row of the table is a disjunction and its tests are alternatives (columns/clause_table.py); the rows of an owner are adjacent. A test of
several intervals becomes several alternatives, so there are no gaps to check afterwards.

Only a subscription nested deeper than a disjunction of tests needs its expression evaluated (columns/disjunctions.py).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import CodedTests
from ray_pubsub.columns.decoding import chosen_tests, decode_clauses
from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.columns.saved_state import SavedState, State
from ray_pubsub.columns.test_records import Form
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.cached_segment import CachedSegment
from ray_pubsub.engines.cnf.conjunctive_index import CnfIndex
from ray_pubsub.engines.coded_clauses import CodedClauses
from ray_pubsub.engines.column_frequency import column_frequency
from ray_pubsub.engines.contract import Frequency, Hits, PivotCost
from ray_pubsub.engines.explain.plan import Partitions
from ray_pubsub.engines.explain.trace import Trace, Traced, column_names
from ray_pubsub.engines.vector_cache.cache import VectorCache

__all__ = ["CnfSegment"]


class CnfSegment(CachedSegment):
    """Immutable. `owners` has one entry per disjunction."""

    engine = "cnf"

    def __init__(
        self, disjunctions: ClauseTable | CodedClauses, vocabulary: Vocabulary, frequency: Frequency = None
    ) -> None:
        """`frequency`: for each attribute number the share of events that have it, by default equal for all."""
        self.vocabulary = vocabulary
        self.coded, self.owners = CodedClauses.of(disjunctions, vocabulary)
        firsts = np.flatnonzero(np.append(True, self.owners[1:] != self.owners[:-1]))
        self._slots = self.owners[firsts]
        members, tests = _alternatives(self.coded)
        self.space = space = self.coded.space
        shares = column_frequency(space, frequency)
        self.index = CnfIndex(np.append(firsts, len(self.owners)), members, tests, space.top, shares)
        self._cache = VectorCache(self.nbytes)

    @classmethod
    def restored(cls, state: SavedState, vocabulary: Vocabulary, slots: int, frequency: Frequency = None) -> CnfSegment:
        return cls(CodedClauses.restored(state, vocabulary, slots), vocabulary, frequency)

    def state(self, slots: NDArray[np.int64] | None = None) -> State:
        return {"kind": self.engine, **CodedClauses(self.coded, self.owners).state(slots)}

    @property
    def nbytes(self) -> int:
        coded = self.coded
        arrays = (self.owners, self._slots, coded.offsets, coded.column, coded.low, coded.high)
        return sum(part.nbytes for part in arrays) + self.index.nbytes

    def table(self, chosen: NDArray[np.int64] | None = None) -> ClauseTable:
        """Returns the disjunctions as records again, for merging; or the chosen ones."""
        coded, owners = self.coded, self.owners
        if chosen is not None:
            coded, owners = chosen_tests(coded, chosen), owners[chosen]
        table = decode_clauses(coded, owners, self.vocabulary)
        table.tests["form"] |= Form.ALTERNATIVE
        return table

    def _match_codes(self, codes: EventCodes) -> Hits:
        """Returns for each event the owners all of whose disjunctions hold, each once."""
        offsets, numbers = self.index.match(codes)
        return Hits(offsets, self._slots[numbers])

    def pivot_cost(self, frequency: NDArray[np.float64]) -> PivotCost:
        return PivotCost(*self.index.expectations(column_frequency(self.space, frequency)))

    def _trace(self, codes: EventCodes, matches: int) -> Traced:
        """Counts subscriptions, not disjunctions."""
        index = self.index
        carried = list(zip(codes.column.tolist(), codes.code.tolist(), strict=True))
        pivots = [column for column in range(self.space.columns) if len(index.met(column))]
        met = [column for column, _ in carried if column in pivots]
        visited = np.unique(np.concatenate([index.universal, *(index.met(column) for column in met)]))
        found = np.unique(np.concatenate([index.universal, *(index.met(*cell) for cell in carried)]))
        trace = Trace("conjunctions of disjunctions", len(visited))
        trace.add(column_names(self.space, self.vocabulary, met), "pivots looked up", len(found), index.expected)
        trace.add("", "disjunctions compared", matches)
        rest = len(index) - len(visited)
        return Traced(Partitions("pivots", len(met), len(pivots) - len(met), len(visited), rest), [trace], len(found))


def _alternatives(
    coded: CodedTests,
) -> tuple[NDArray[np.int64], tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]]:
    """Returns where each disjunction's tests start, and the tests; a test of several intervals becomes several tests."""
    if coded.pieces is None or not (coded.pieces >= 0).any():
        return coded.offsets, (coded.column, coded.low, coded.high)
    split = coded.pieces >= 0
    piece = np.where(split, coded.pieces, 0)
    counts = np.where(split, np.diff(coded.piece_offsets)[piece], 1)
    starts = np.concatenate([[0], np.cumsum(counts)])
    of = np.repeat(np.arange(len(counts)), counts)
    part = np.where(split, coded.piece_offsets[piece], 0)[of] + np.arange(len(of)) - starts[of]
    low, high = coded.low[of], coded.high[of]
    several = split[of]
    low[several], high[several] = coded.piece_low[part[several]], coded.piece_high[part[several]]
    return starts[coded.offsets], (coded.column[of], low, high)
