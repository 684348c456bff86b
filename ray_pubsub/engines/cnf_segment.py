"""A segment of subscriptions that are conjunctions of disjunctions: coded like clauses, found by engines/opindex_cnf.py.

A row of the table is a disjunction and its tests are alternatives (columns/clause_table.py); the rows of an owner follow each other. A test
of several intervals is several alternatives here, so there are no holes to settle.

Only what nests deeper than a disjunction of tests needs its expression asked (columns/disjunctions.py).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable, Form
from ray_pubsub.columns.coding import CodedTests
from ray_pubsub.columns.decoding import chosen_tests, decode_clauses
from ray_pubsub.columns.event_codes import encode_events
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.coded_segment import CodedClauses
from ray_pubsub.engines.contract import Hits
from ray_pubsub.engines.opindex_cnf import CnfIndex
from ray_pubsub.engines.plan import Partitions, SegmentPlan
from ray_pubsub.engines.trace import Trace, column_names, timed
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["CnfSegment"]


class CnfSegment:
    """Immutable. `owners`: per disjunction."""

    def __init__(self, disjunctions: ClauseTable | CodedClauses, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.coded, self.owners = CodedClauses.of(disjunctions, vocabulary)
        firsts = np.flatnonzero(np.append(True, self.owners[1:] != self.owners[:-1]))
        self._slots = self.owners[firsts]
        members, tests = _alternatives(self.coded)
        self.index = CnfIndex(np.append(firsts, len(self.owners)), members, tests, self.coded.space.top)

    def __len__(self) -> int:
        return len(self.owners)

    @property
    def nbytes(self) -> int:
        coded = self.coded
        arrays = (self.owners, self._slots, coded.offsets, coded.column, coded.low, coded.high)
        return sum(part.nbytes for part in arrays) + self.index.nbytes

    def table(self, chosen: NDArray[np.int64] | None = None) -> ClauseTable:
        """The disjunctions as records again, for merging; or the chosen ones."""
        coded, owners = self.coded, self.owners
        if chosen is not None:
            coded, owners = chosen_tests(coded, chosen), owners[chosen]
        table = decode_clauses(coded, owners, self._vocabulary)
        table.tests["form"] |= Form.ALTERNATIVE
        return table

    def match(self, events: EventBatch) -> Hits:
        """Owners all of whose disjunctions hold, per event, each once."""
        offsets, numbers = self.index.match(encode_events(events, self.coded.space, self._vocabulary))
        return Hits(offsets, self._slots[numbers])

    def explain(self, events: EventBatch) -> SegmentPlan:
        """How `match` goes about a batch of one event; what is counted are subscriptions, not disjunctions."""
        hits, seconds = timed(self.match, events)
        codes, index = encode_events(events, self.coded.space, self._vocabulary), self.index
        carried = list(zip(codes.column.tolist(), codes.code.tolist(), strict=True))
        pivots = [column for column in range(self.coded.space.columns) if len(index.met(column))]
        met = [column for column, _ in carried if column in pivots]
        visited = np.unique(np.concatenate([index.universal, *(index.met(column) for column in met)]))
        found = np.unique(np.concatenate([index.universal, *(index.met(*cell) for cell in carried)]))
        trace = Trace("conjunctions of disjunctions", len(visited))
        trace.add(column_names(self.coded.space, self._vocabulary, met), "pivots looked up", len(found), index.expected)
        trace.add("", "disjunctions compared", len(hits.slots))
        rest = len(index) - len(visited)
        partitions = Partitions("pivots", len(met), len(pivots) - len(met), len(visited), rest)
        return SegmentPlan("cnf", len(index), partitions, (trace.pipeline(),), len(found), len(hits.slots), seconds)


def _alternatives(
    coded: CodedTests,
) -> tuple[NDArray[np.int64], tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]]:
    """Where each disjunction's tests start, and the tests; those of several intervals as several tests."""
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
