"""Adds an engine: a segment class and a row in the table of engines are enough for MatchIndex, save, explain and stats.

    python -m examples.adding_an_engine

This engine compares every test of every clause with every event, in numpy: the least that an engine must do.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ray_pubsub
from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import CodedTests
from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.coded_clauses import CodedClauses
from ray_pubsub.engines.contract import Frequency
from ray_pubsub.engines.engine_entry import EngineEntry
from ray_pubsub.engines.explain.plan import Partitions
from ray_pubsub.engines.explain.trace import Trace, Traced
from ray_pubsub.engines.papers.coded_segment import CodedSegment
from ray_pubsub.engines.registry import ENGINES


class PlainSegment(CodedSegment):
    """Clauses are runs of tests, each an interval of integer codes of one attribute; code 0 is absence."""

    engine = "plain"

    def __init__(
        self, clauses: ClauseTable | CodedClauses, vocabulary: Vocabulary, frequency: Frequency = None
    ) -> None:
        """`frequency`: how often attributes occur in events, for engines that order their work by it."""
        super().__init__(clauses, vocabulary)

    def _build(self, coded: CodedTests) -> None:
        self._clause_of_test = np.repeat(np.arange(len(self)), np.diff(coded.offsets))

    def _match(self, codes: EventCodes) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Returns offsets and clause numbers, event after event."""
        found = [self._holding(codes, event) for event in range(len(codes.offsets) - 1)]
        offsets = np.concatenate([[0], np.cumsum([len(numbers) for numbers in found], dtype=np.int64)])
        return offsets, np.concatenate([np.empty(0, np.int32), *found]).astype(np.int32)

    def _holding(self, codes: EventCodes, event: int) -> NDArray[Any]:
        coded, cells = self.coded, slice(*codes.offsets[event : event + 2])
        values = np.zeros(coded.space.columns, np.int32)
        values[codes.column[cells]] = codes.code[cells]
        value, holds = values[coded.column], np.ones(len(self), bool)
        holds[self._clause_of_test[(value < coded.low) | (value > coded.high)]] = False
        return np.flatnonzero(holds)

    def _trace(self, codes: EventCodes) -> Traced:
        trace = Trace("all clauses", len(self))
        trace.numbers = self._match(codes)[1]
        trace.add("", "every test compared", len(trace.numbers))
        return Traced(Partitions("whole", 1, 0, len(self), 0), [trace], len(self))


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    ENGINES["plain"] = EngineEntry(PlainSegment)
    texts = [f"price between {number} and {number + 50} and stock > {number % 7}" for number in range(5_000)]
    own, reference = ray_pubsub.MatchIndex("plain"), ray_pubsub.MatchIndex("scan")
    for index in (own, reference):
        index.add_many(range(len(texts)), texts, atomic=True)
    event = {"price": 1234, "stock": 5}
    found, expected = own.match(event), reference.match(event)
    print(f"plain: {len(found)} matches, scan: {len(expected)}, equal: {found == expected}\n")
    print(own.explain(event))
    with tempfile.TemporaryDirectory() as folder:
        own.save(Path(folder) / "index")
        loaded = ray_pubsub.MatchIndex.load(Path(folder) / "index")
        print(f"\nsaved and loaded: {loaded!r}, equal: {loaded.match(event) == expected}")


if __name__ == "__main__":
    main()
