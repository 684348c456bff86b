"""The live end of an index: clauses just added, scanned record by record until there are enough for a block."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.string_hashes import distinct_of
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.build_parts import build_parts
from ray_pubsub.engines.contract import Hits
from ray_pubsub.engines.merge_hits import merge_hits
from ray_pubsub.engines.registry import build_of
from ray_pubsub.index.merge_policy import is_worth_building, scan_work
from ray_pubsub.kernels.index.tail import ABSENT, match_tail
from ray_pubsub.model.event_batch import EventBatch, Flags
from ray_pubsub.model.single_event import SingleEvent
from ray_pubsub.model.values import Kind, Value
from ray_pubsub.workspace import workspace

__all__ = ["NO_CELLS", "TailView", "cells_of", "tail_values"]

MOST_LAYOUTS = 1024


class TailView:
    """A reader's view of a growing table: the clauses it has now."""

    __slots__ = ("addresses", "clauses", "offsets", "opaque", "owners", "sets", "tests")

    def __init__(self, table: ClauseTable) -> None:
        self.clauses = table.count
        self.owners: NDArray[np.int64] = table.owners
        self.offsets: NDArray[np.int64] = table.offsets
        self.tests: NDArray[Any] = table.tests
        self.addresses = table.addresses
        """The addresses of offsets, tests and owners, which a kernel takes in their place."""
        self.sets = table.opaque
        self.opaque = len(table.opaque)

    def __len__(self) -> int:
        return self.clauses

    def table(self, chosen: NDArray[np.int64] | None = None) -> ClauseTable:
        """Returns the clauses as a separate table."""
        table = ClauseTable(self.clauses, self.owners, self.offsets, self.tests, self.sets.first(self.opaque))
        return table if chosen is None else table.take(chosen)

    def match(self, events: EventBatch, vocabulary: Vocabulary) -> Hits:
        if is_worth_building(scan_work(events.size, self.clauses, self.opaque), self.clauses, self.opaque):
            # Maintenance could not seal this tail, or is building a block of it: this batch does not wait.
            blocks = build_parts(self.table(), vocabulary, build_of("pivot", {}))
            return merge_hits([block.match(events) for block in blocks], events.size)
        cells = cells_of(events, vocabulary)
        offsets, out = np.zeros(events.size + 1, np.int64), np.empty(self.clauses * events.size + 1, np.int64)
        verdicts = self.verdicts(events, vocabulary)
        values = workspace().take("tail", tail_values, cells.attributes)
        match_tail((self.clauses, *self.addresses), cells.offsets, cells[2:], verdicts, values, offsets, out)
        return Hits(offsets, out[: offsets[-1]])

    def verdicts(self, events: EventBatch, vocabulary: Vocabulary) -> NDArray[np.bool_]:
        """Returns for each event and each set that records cannot express whether it admits the event's value."""
        if not self.opaque:
            return np.zeros((events.size, 0), dtype=np.bool_)
        tests = self.sets.tests(self.opaque, vocabulary)[: self.opaque]
        rows = rows_with_flags(events, vocabulary, frozenset(name for name, _ in tests))
        found = [[test(row.get(name)) for name, test in tests] for row in rows]
        return np.array(found, dtype=np.bool_).reshape(events.size, self.opaque)  # there may be no event


def tail_values(attributes: int) -> tuple[NDArray[Any], ...]:
    """Returns scratch arrays, the `Values` of kernels/index/tail.py."""
    return np.full(attributes, ABSENT, dtype=np.uint8), np.zeros(attributes, np.int64), np.zeros(attributes)


class _Cells(NamedTuple):
    """A batch's values by event, under the vocabulary's numbers."""

    attributes: int
    offsets: NDArray[np.int64]
    attribute: NDArray[np.int32]
    kind: NDArray[np.uint8]
    whole: NDArray[np.int64]
    rest: NDArray[np.float64]


def cells_of(events: EventBatch, vocabulary: Vocabulary) -> _Cells:
    """Returns the cells, made once per batch and state of the vocabulary: all tails of a snapshot share them."""
    sizes = len(vocabulary.attributes), len(vocabulary.strings)
    known: tuple[Any, Any, _Cells] | None = events.plans.get("tail")
    if known is None or known[0] is not vocabulary or known[1] != sizes:
        read = _read_one if isinstance(events, SingleEvent) else _read_cells
        cells: _Cells = read(events, vocabulary, sizes[0])  # type: ignore[arg-type]
        known = events.plans.remember("tail", (vocabulary, sizes, cells))
    return known[2]


def _read_one(events: SingleEvent, vocabulary: Vocabulary, attributes: int) -> _Cells:
    """Reads a single event, whose values are in a row already. What is the same for all events of its layout is computed once."""
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
            whole[place] = vocabulary.strings.find(events.plains[place])
    read = _Cells(attributes, np.array([0, len(layout)]), known[1], known[2], whole, cells.rest)
    if events.flags is None:
        return read
    added = _flag_cells(events.flags, attributes)[1:]
    own: tuple[NDArray[Any], ...] = (read.attribute, read.kind, read.whole, read.rest)
    parts = [np.concatenate(pair) for pair in zip(own, added, strict=True)]
    return _Cells(attributes, np.array([0, len(parts[0])]), *parts)


def _read_cells(events: EventBatch, vocabulary: Vocabulary, attributes: int) -> _Cells:
    """Reads a batch. Attributes and strings that no clause names are left out, or get the number -1, which no clause tests."""
    rows: list[NDArray[Any]] = []
    attribute: list[NDArray[Any]] = []
    kind: list[NDArray[Any]] = []
    whole: list[NDArray[Any]] = []
    rest: list[NDArray[Any]] = []
    every = np.arange(events.size, dtype=np.int32)
    for lane in events.lanes:
        number = vocabulary.attributes.find(lane.attribute)
        if not 0 <= number < attributes or not len(lane):
            continue
        rows.append(every if lane.rows is None else lane.rows)
        attribute.append(np.full(len(lane), number, dtype=np.int32))
        kind.append(np.full(len(lane), lane.kind, dtype=np.uint8))
        if lane.strings is not None:
            which, distinct = distinct_of(lane.strings)
            numbers = np.array([vocabulary.strings.find(text) for text in distinct], dtype=np.int64)
            whole.append(numbers[which[lane.whole]])
        else:
            whole.append(lane.whole)
        rest.append(np.zeros(len(lane)) if lane.rest is None else lane.rest)
    if events.flags is not None:
        for column, cells in zip(
            (rows, attribute, kind, whole, rest), _flag_cells(events.flags, attributes), strict=True
        ):
            column.append(cells)
    if not rows:
        return _Cells(attributes, np.zeros(events.size + 1, np.int64), *NO_CELLS)
    row = np.concatenate(rows)
    parts = [np.concatenate(part) for part in (attribute, kind, whole, rest)]
    order = np.argsort(row, kind="stable")
    offsets = np.searchsorted(row[order], np.arange(events.size + 1))
    return _Cells(attributes, offsets, *[part[order] for part in parts])


def _flag_cells(flags: Flags, attributes: int) -> tuple[NDArray[Any], ...]:
    """Returns rows, attributes, kinds and values of the flags that this state of the vocabulary knows."""
    known = flags.numbers < attributes
    count = int(known.sum())
    kind = np.full(count, Kind.BOOLEAN, dtype=np.uint8)
    return flags.rows[known], flags.numbers[known], kind, np.ones(count, np.int64), np.zeros(count)


def rows_with_flags(events: EventBatch, vocabulary: Vocabulary, wanted: frozenset[str]) -> list[dict[str, Value]]:
    """Returns the wanted attributes of the events, including computed ones, as dictionaries. Others are not touched, because a long list
    is expensive."""
    rows = events.rows(wanted)
    if events.flags is not None:
        for row, number in zip(events.flags.rows.tolist(), events.flags.numbers.tolist(), strict=True):
            name = vocabulary.attributes.texts[number]
            if name in wanted:
                rows[row][name] = Value(Kind.BOOLEAN, True)
    return rows


NO_CELLS = (np.empty(0, np.int32), np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0))
