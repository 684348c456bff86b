"""A segment of clauses that test one flag and nothing else: `list_contains(tags, 'a')`, `geo_within(…)`.

They are found by the flags that an event has, one look-up for each, without codes and independently of the engine. Equal clauses are
several owners of one flag."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.opaque.opaque_sets import OpaqueSets
from ray_pubsub.columns.saved_state import SavedState, State, check, check_within
from ray_pubsub.columns.test_records import TEST, Form, Side
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Hits, Segment
from ray_pubsub.engines.explain.plan import Partitions, SegmentPlan
from ray_pubsub.engines.explain.trace import Trace, timed
from ray_pubsub.kernels.computed.flags import clauses_of_flags
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.values import Kind

__all__ = ["FlagSegment", "single_flags"]

SPARSE = 8
"""Flags are looked up by number if at least one in SPARSE of the numbers between the least and the largest is a flag."""


def single_flags(table: ClauseTable, vocabulary: Vocabulary) -> NDArray[np.bool_] | None:
    """Returns which clauses test one flag alone; None if none does."""
    flags = vocabulary.attributes.flags
    if not flags:
        return None
    offsets = table.offsets[: table.count + 1]
    alone = np.diff(offsets) == 1
    first = np.minimum(offsets[:-1], table.test_count - 1) if table.test_count else offsets[:-1][:0]
    if not len(first):
        return None
    tests = table.tests
    number = np.ascontiguousarray(tests["attribute"][: table.test_count])[first]
    is_flag = np.zeros(len(vocabulary.attributes), bool)
    is_flag[flags] = True
    alone &= is_flag[number]
    wanted = {"form": Form.INTERVAL, "kind": int(Kind.BOOLEAN), "low_whole": 1, "high_whole": 1}
    for name, value in {**wanted, "low_side": Side.BEFORE, "high_side": Side.AFTER}.items():
        alone &= tests[name][: table.test_count][first] == value
    return alone if alone.any() else None


class FlagSegment(Segment):
    """Immutable. Clauses are in the order of their flags."""

    engine = "flags"

    def __init__(self, table: ClauseTable) -> None:
        """Takes clauses that `single_flags` chose."""
        numbers = table.tests["attribute"][table.offsets[: table.count]].astype(np.int32)
        order = np.argsort(numbers, kind="stable")
        self._set(numbers[order], table.owners[: table.count][order])

    def _set(self, numbers: NDArray[np.int32], owners: NDArray[np.int64]) -> None:
        self._numbers, self.owners = numbers, owners
        self._flags, counts = np.unique(numbers, return_counts=True)
        self._least, span = int(numbers[0]), int(numbers[-1]) - int(numbers[0]) + 1
        self._direct = span <= SPARSE * len(self._flags)
        if self._direct:
            counts = np.bincount(numbers - self._least, minlength=span)
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        self.owners = self.owners.view()
        self.owners.flags.writeable = False  # read-only as in a loaded file: one array type for the kernel

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (self._numbers, self.owners, self._flags, self._starts))

    def state(self, slots: NDArray[np.int64] | None = None) -> State:
        owners = self.owners if slots is None else slots[self.owners]
        return {"kind": self.engine, "numbers": self._numbers, "owners": owners}

    @classmethod
    def restored(cls, state: SavedState, vocabulary: Vocabulary, slots: int) -> FlagSegment:
        numbers = state.array("numbers", np.int32, None)
        owners = state.array("owners", np.int64, len(numbers))
        check(len(numbers), "no clauses")
        check((np.diff(numbers) >= 0).all(), "flags do not ascend")
        check(np.isin(numbers, vocabulary.attributes.flags).all(), "attributes that are no flags")
        check_within(owners, 0, slots - 1, "owners")
        segment = cls.__new__(cls)
        segment._set(numbers, owners)
        return segment

    def table(self, chosen: NDArray[np.int64] | None = None) -> ClauseTable:
        numbers, owners = self._numbers, self.owners
        if chosen is not None:
            numbers, owners = numbers[chosen], owners[chosen]
        tests = np.zeros(len(numbers), TEST)
        tests["attribute"], tests["kind"] = numbers, int(Kind.BOOLEAN)
        tests["low_whole"] = tests["high_whole"] = 1
        tests["low_side"], tests["high_side"] = Side.BEFORE, Side.AFTER
        return ClauseTable(len(numbers), owners, np.arange(len(numbers) + 1), tests, OpaqueSets.empty())

    def match(self, events: EventBatch) -> Hits:
        """Returns the owners of the clauses that hold, for each event; an owner with several clauses may occur more than once."""
        offsets = np.zeros(events.size + 1, np.int64)
        if events.flags is None:
            return Hits(offsets, np.empty(0, np.int64))
        rows, numbers = events.flags
        return Hits(offsets, clauses_of_flags(rows, self._places(numbers), self._starts, self.owners, offsets))

    def _places(self, numbers: NDArray[np.int32]) -> NDArray[np.int64]:
        """Returns where each flag is in `starts`; the position is arbitrary for a flag that no clause tests."""
        if self._direct:
            return numbers.astype(np.int64) - self._least
        place = np.minimum(np.searchsorted(self._flags, numbers), len(self._flags) - 1)
        return np.where(self._flags[place] == numbers, place, -1)

    def explain(self, events: EventBatch) -> SegmentPlan:
        hits, seconds = timed(self.match, events)
        found = len(hits.slots)
        trace = Trace("clauses of one flag", found)
        trace.add("", "found by the event's flags", found)
        visited = 0 if events.flags is None else int(np.isin(self._flags, events.flags.numbers).sum())
        partitions = Partitions("flags", visited, len(self._flags) - visited, found, len(self) - found)
        return SegmentPlan("flags", len(self), partitions, (trace.pipeline(),), 0, found, seconds)
