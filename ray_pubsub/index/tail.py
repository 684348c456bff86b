"""The live end of an index: clauses just added, scanned record by record until there are enough for a block."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Hits
from ray_pubsub.engines.pivot_block import PivotBlock
from ray_pubsub.kernels.tail import match_tail
from ray_pubsub.language.truth import Event, truth
from ray_pubsub.language.value_set import ValueSet
from ray_pubsub.model.event_batch import EventBatch, split_number
from ray_pubsub.model.values import Kind

__all__ = ["TailView"]

ABSENT = 255
SCANNED_PAIRS = 65_536
"""Beyond this many pairs of event and clause, a batch builds a block of the tail first: 5 ns a pair against 2 ms a block."""


class TailView(NamedTuple):
    """What a reader sees of a growing table: its first `clauses` clauses."""

    table: ClauseTable
    clauses: int
    owners: NDArray[np.int64]
    offsets: NDArray[np.int64]
    tests: NDArray[Any]
    opaque: int

    @classmethod
    def of(cls, table: ClauseTable) -> TailView:
        return cls(table, table.count, table.owners, table.offsets, table.tests, len(table.opaque))

    def frozen(self) -> ClauseTable:
        """The clauses as a table of their own."""
        opaque = self.table.opaque[: self.opaque]
        return ClauseTable(self.clauses, self.owners, self.offsets, self.tests, opaque, {})

    def match(self, events: EventBatch, vocabulary: Vocabulary) -> Hits:
        if self.clauses * events.size > SCANNED_PAIRS:
            return PivotBlock(self.frozen(), vocabulary).match(events)
        attributes = len(vocabulary.attributes)
        kind = np.full(attributes, ABSENT, dtype=np.uint8)
        whole, rest = np.zeros(attributes, dtype=np.int64), np.zeros(attributes)
        found = np.empty(self.clauses, dtype=np.int64)
        offsets, parts = np.zeros(events.size + 1, dtype=np.int64), []
        for row, event in enumerate(events.rows()):
            kind[:] = ABSENT
            for name, value in event.items():
                number = vocabulary.attributes.find(name)
                if 0 <= number < attributes:
                    kind[number] = value.kind
                    if value.kind == Kind.STRING:
                        whole[number] = vocabulary.strings.find(value.plain)
                    else:
                        whole[number], rest[number] = split_number(value.plain)
            verdict = self._verdicts(event, vocabulary)
            count = match_tail(self.clauses, self.offsets, self.tests, self.owners, kind, whole, rest, verdict, found)
            parts.append(found[:count].copy())
            offsets[row + 1] = offsets[row] + count
        return Hits(offsets, np.concatenate(parts) if parts else np.empty(0, dtype=np.int64))

    def _verdicts(self, event: Event, vocabulary: Vocabulary) -> NDArray[np.bool_]:
        verdict = np.zeros(self.opaque, dtype=np.bool_)
        for number in range(self.opaque):
            attribute, allowed = self.table.opaque[number]
            verdict[number] = _admits(allowed, event, vocabulary.attributes.texts[attribute])
        return verdict


def _admits(allowed: ValueSet, event: Event, attribute: str) -> bool:
    return allowed.contains(event.get(attribute)) and all(
        truth(pattern.leaf, event) is True for pattern in allowed.patterns
    )
