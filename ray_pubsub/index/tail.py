"""The live end of an index: clauses just added, scanned record by record until there are enough for a block."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Hits
from ray_pubsub.engines.gathering import gathered
from ray_pubsub.engines.pivot_block import PivotBlock
from ray_pubsub.engines.segments import build_parts
from ray_pubsub.kernels.tail import ABSENT, match_tail
from ray_pubsub.language.pattern_test import pattern_test
from ray_pubsub.language.truth import Event
from ray_pubsub.language.value_set import ValueSet
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.values import Kind

__all__ = ["TailView", "cells_of", "tail_scratch"]

MOST_LAYOUTS = 1024

SCANNED_PAIRS = 65_536
"""Beyond this many pairs of event and clause, a batch builds a block of the tail first: 5 ns a pair against 2 ms a block."""


class TailView:
    """What a reader sees of a growing table: the clauses it has now."""

    __slots__ = ("addresses", "clauses", "offsets", "opaque", "owners", "sets", "tests")

    def __init__(self, table: ClauseTable) -> None:
        self.clauses = table.count
        self.owners: NDArray[np.int64] = table.owners
        self.offsets: NDArray[np.int64] = table.offsets
        self.tests: NDArray[Any] = table.tests
        self.addresses = table.addresses
        """Of offsets, tests and owners: what a kernel takes instead of them."""
        self.sets = table.opaque
        self.opaque = len(table.opaque)

    def __len__(self) -> int:
        return self.clauses

    def table(self, chosen: NDArray[np.int64] | None = None) -> ClauseTable:
        """The clauses as a table of their own."""
        table = ClauseTable(self.clauses, self.owners, self.offsets, self.tests, self.sets[: self.opaque], {})
        return table if chosen is None else table.take(chosen)

    def match(self, events: EventBatch, vocabulary: Vocabulary) -> Hits:
        if self.clauses * events.size > SCANNED_PAIRS:
            blocks = build_parts(self.table(), vocabulary, PivotBlock)
            return gathered([block.match(events) for block in blocks], events.size)
        cells = cells_of(events, vocabulary)
        offsets, out = np.zeros(events.size + 1, np.int64), np.empty(self.clauses * events.size + 1, np.int64)
        verdicts = np.zeros((events.size, self.opaque), dtype=np.bool_)
        if self.opaque:
            for row, event in enumerate(events.rows()):
                verdicts[row] = self._verdicts(event, vocabulary)
        scratch = SCRATCH.of(cells.attributes)
        match_tail(self.clauses, *self.addresses, *cells[1:], verdicts, *scratch, offsets, out)
        return Hits(offsets, out[: offsets[-1]])

    def _verdicts(self, event: Event, vocabulary: Vocabulary) -> NDArray[np.bool_]:
        verdict = np.zeros(self.opaque, dtype=np.bool_)
        for number in range(self.opaque):
            attribute, allowed = self.sets[number]
            verdict[number] = _admits(allowed, event, vocabulary.attributes.texts[attribute])
        return verdict


class _Scratch(threading.local):
    """A thread's."""

    def __init__(self) -> None:
        self._arrays = tail_scratch(64)

    def of(self, attributes: int) -> tuple[NDArray[Any], ...]:
        if len(self._arrays[0]) < attributes:
            self._arrays = tail_scratch(2 * attributes)
        return self._arrays


def tail_scratch(attributes: int) -> tuple[NDArray[Any], ...]:
    """A place for one event's values by attribute number, as kernels/tail.py wants and leaves it."""
    return np.full(attributes, ABSENT, dtype=np.uint8), np.zeros(attributes, np.int64), np.zeros(attributes)


SCRATCH = _Scratch()


class _Cells(NamedTuple):
    """A batch's values by event, under the vocabulary's numbers."""

    attributes: int
    offsets: NDArray[np.int64]
    attribute: NDArray[np.int32]
    kind: NDArray[np.uint8]
    whole: NDArray[np.int64]
    rest: NDArray[np.float64]


def cells_of(events: EventBatch, vocabulary: Vocabulary) -> _Cells:
    """Made once per batch and state of the vocabulary: all tails of a snapshot share them."""
    sizes = len(vocabulary.attributes), len(vocabulary.strings)
    known: tuple[Any, Any, _Cells] | None = events.plans.get("tail")
    if known is None or known[0] is not vocabulary or known[1] != sizes:
        one = events.size == 1 and len(events.cells().rows) == len(events.lanes)
        cells = (_read_one if one else _read_cells)(events, vocabulary, sizes[0])
        known = events.plans["tail"] = (vocabulary, sizes, cells)
    return known[2]


def _read_one(events: EventBatch, vocabulary: Vocabulary, attributes: int) -> _Cells:
    """A batch of one has its values in a row already; what is the same for all events of its layout is worked out once."""
    layout = events.layout()
    known: tuple[int, NDArray[np.int32], NDArray[np.uint8]] | None = vocabulary.layouts.get(layout)
    if known is None or known[0] != attributes:
        if len(vocabulary.layouts) >= MOST_LAYOUTS:
            vocabulary.layouts.clear()
        numbers = [vocabulary.attributes.find(name) for name, _ in layout]
        attribute = np.array([number if number < attributes else -1 for number in numbers], dtype=np.int32)
        known = (attributes, attribute, np.array([kind for _, kind in layout], dtype=np.uint8))
        vocabulary.layouts[layout] = known
    cells = events.cells()
    whole = cells.whole
    texts = [place for place, (_, kind) in enumerate(layout) if kind == Kind.STRING]
    if texts:
        whole = whole.copy()
        for place in texts:
            strings = events.lanes[place].strings
            assert strings is not None
            whole[place] = vocabulary.strings.find(strings[int(cells.whole[place])])
    return _Cells(attributes, np.array([0, len(layout)]), known[1], known[2], whole, cells.rest)


def _read_cells(events: EventBatch, vocabulary: Vocabulary, attributes: int) -> _Cells:
    """Attributes and strings that no clause names are left out, or are number -1, which no clause asks for."""
    rows, attribute, kind, whole, rest = [], [], [], [], []
    every = np.arange(events.size, dtype=np.int32)
    for lane in events.lanes:
        number = vocabulary.attributes.find(lane.attribute)
        if not 0 <= number < attributes or not len(lane):
            continue
        rows.append(every if lane.rows is None else lane.rows)
        attribute.append(np.full(len(lane), number, dtype=np.int32))
        kind.append(np.full(len(lane), lane.kind, dtype=np.uint8))
        if lane.strings is not None:
            whole.append(np.array([vocabulary.strings.find(text) for text in lane.strings], dtype=np.int64)[lane.whole])
        else:
            whole.append(lane.whole)
        rest.append(np.zeros(len(lane)) if lane.rest is None else lane.rest)
    if not rows:
        return _Cells(attributes, np.zeros(events.size + 1, np.int64), *NO_CELLS)
    row = np.concatenate(rows)
    parts = [np.concatenate(part) for part in (attribute, kind, whole, rest)]
    order = np.argsort(row, kind="stable")
    offsets = np.searchsorted(row[order], np.arange(events.size + 1))
    return _Cells(attributes, offsets, *[part[order] for part in parts])  # type: ignore[arg-type]


NO_CELLS = (np.empty(0, np.int32), np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0))


def _admits(allowed: ValueSet, event: Event, attribute: str) -> bool:
    value = event.get(attribute)
    if not allowed.contains(value):
        return False
    # Beside patterns, a set admits strings only.
    return not allowed.patterns or (
        value is not None
        and all(pattern_test(pattern.leaf)(value.plain) != pattern.leaf.negated for pattern in allowed.patterns)
    )
