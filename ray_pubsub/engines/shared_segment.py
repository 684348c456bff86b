"""Stores equal clauses once, with the list of their owners, around a segment of any engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.saved_state import SavedState, State, check, check_within
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Build, Frequency, Hits, PivotCost, Segment
from ray_pubsub.engines.explain.plan import SegmentPlan
from ray_pubsub.engines.segment_stats import BlockStats
from ray_pubsub.kernels.columns.code_space import Bounds, TestFields
from ray_pubsub.kernels.columns.equal_clauses import count_members, expand_event, expand_groups, group_equal
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.single_event import SingleEvent

__all__ = ["SharedSegment", "build_shared"]

WORTH = 16
"""At least one clause in this many must be a repeat: with fewer, looking up the other owners of every match costs more than it saves."""


def build_shared(table: ClauseTable, vocabulary: Vocabulary, build: Build, frequency: Frequency = None) -> Segment:
    """Returns the engine's segment; if many clauses repeat others, the segment of one clause of each group."""
    tests = table.tests[: table.test_count]
    group, first = np.empty(table.count, dtype=np.int32), np.empty(table.count, dtype=np.int32)
    places = np.full(1 << max(4, (2 * table.count).bit_length()), -1, dtype=np.int32)
    low, high = (Bounds(*(tests[f"{end}_{part}"] for part in Bounds._fields)) for end in ("low", "high"))
    fields = TestFields(tests["attribute"], tests["form"], tests["kind"], low, high)
    offsets = table.offsets[: table.count + 1]
    groups = group_equal(offsets, fields, places, group, first)
    if (table.count - groups) * WORTH < table.count:
        return build(table, vocabulary, frequency)
    return SharedSegment(table, group, first[:groups].astype(np.int64), lambda part: build(part, vocabulary, frequency))


class SharedSegment(Segment):
    """Immutable. The inner segment holds one clause for each group of equal ones; this one stores the owners of each group."""

    engine = "shared"

    def __init__(
        self,
        table: ClauseTable,
        group: NDArray[np.int32],
        first: NDArray[np.int64],
        build: Callable[[ClauseTable], Segment],
    ) -> None:
        order = np.argsort(group, kind="stable")
        distinct = table.take(first)
        distinct.owners = np.arange(len(first))
        self._set(group[order], table.owners[: table.count][order], build(distinct))

    def _set(self, group: NDArray[np.int32], owners: NDArray[np.int64], inside: Segment) -> None:
        self._group = group
        self.owners: NDArray[np.int32] = owners.astype(np.int32)
        counts = np.bincount(group, minlength=len(inside))
        self._offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        self._inside = inside
        self.parts = (inside,)

    def state(self, slots: NDArray[np.int64] | None = None) -> State:
        owners = self.owners.astype(np.int64) if slots is None else slots[self.owners]
        return {"kind": self.engine, "group": self._group, "owners": owners, "inside": self._inside.state()}

    @classmethod
    def restored(cls, state: SavedState, slots: int, inside: Segment) -> SharedSegment:
        group = state.array("group", np.int32, None)
        owners = state.array("owners", np.int64, len(group))
        check_within(owners, 0, slots - 1, "owners")
        check_within(group, 0, len(inside) - 1, "groups")
        check((group[1:] >= group[:-1]).all(), "groups do not ascend")
        check((np.bincount(inside.owners, minlength=len(inside)) == 1).all(), "groups are not of one clause each")
        segment = cls.__new__(cls)
        segment._set(group, owners, inside)
        return segment

    def stats(self) -> tuple[BlockStats, ...]:
        """If several engines share the distinct clauses, repeats are counted with the first, because it is not known which engine holds
        them."""
        first, *others = self._inside.stats()
        return replace(first, shared=len(self) - len(self._inside)), *others

    @property
    def nbytes(self) -> int:
        return self._inside.nbytes + self.owners.nbytes + self._group.nbytes + self._offsets.nbytes

    def table(self, chosen: NDArray[np.int64] | None = None) -> ClauseTable:
        owners = self.owners if chosen is None else self.owners[chosen]
        place = np.empty(len(self._inside), dtype=np.int64)
        place[self._inside.owners] = np.arange(len(self._inside))
        wanted, which = np.unique(self._group if chosen is None else self._group[chosen], return_inverse=True)
        table = self._inside.table(place[wanted]).take(which)
        table.owners = owners.astype(np.int64)
        return table

    def match(self, events: EventBatch) -> Hits:
        hits = self._inside.match(events)
        offsets = np.zeros(events.size + 1, dtype=np.int64)
        members = np.empty(count_members(hits.slots, self._offsets), dtype=np.int64)
        expand_groups(hits.offsets, hits.slots, self._offsets, self.owners, offsets, members)
        return Hits(offsets, members)

    def match_single(self, event: SingleEvent) -> NDArray[np.int64]:
        slots: NDArray[np.int64] = expand_event(self._inside.match_single(event), self._offsets, self.owners)
        return slots

    def pivot_cost(self, frequency: NDArray[np.float64]) -> PivotCost | None:
        return self._inside.pivot_cost(frequency)

    def explain(self, events: EventBatch) -> SegmentPlan:
        """Explains the match of the distinct clauses; the matches are those of all."""
        plan = self._inside.explain(events)
        return replace(plan, shared=len(self) - len(self._inside), matches=len(self.match(events).slots))
