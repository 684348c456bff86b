"""A segment with one part for clauses on common attributes and one for the others: in a single segment, a few rare attributes would rule
out bitmaps for all clauses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.decoding import join_tables
from ray_pubsub.columns.saved_state import State
from ray_pubsub.engines.contract import Hits, PivotCost, Segment
from ray_pubsub.engines.explain.plan import Partitions, SegmentPlan
from ray_pubsub.engines.merge_hits import merge_hits
from ray_pubsub.engines.segment_stats import BlockStats
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.single_event import SingleEvent

__all__ = ["MixedSegment", "on_common_attributes"]

COMMON = 64
"""An attribute is common if one in this many clauses tests it."""


def on_common_attributes(table: ClauseTable, most: int) -> NDArray[np.bool_]:
    """Returns which clauses test common attributes only, of which there are at most `most`."""
    attribute = table.tests["attribute"][: table.test_count]
    uses = table.uses()
    common = uses * COMMON >= max(1, table.count)
    common[np.argsort(-uses, kind="stable")[most:]] = False
    if common[uses > 0].all():
        return np.ones(table.count, dtype=bool)
    offsets = table.offsets[: table.count + 1]
    others = np.concatenate([[0], np.cumsum(~common[attribute])])[offsets]
    found: NDArray[np.bool_] = np.diff(others) == 0
    return found


class MixedSegment(Segment):
    """Immutable. Its clauses are those of its parts, one part after the other."""

    engine = "mixed"

    def __init__(self, parts: Sequence[Segment]) -> None:
        self.parts = tuple(parts)
        self.owners: NDArray[np.int64] = np.concatenate([part.owners for part in parts]).astype(np.int64)

    @property
    def nbytes(self) -> int:
        return self.owners.nbytes + sum(part.nbytes for part in self.parts)

    def table(self, chosen: NDArray[np.int64] | None = None) -> ClauseTable:
        """Returns the clauses as records again, for merging; or the chosen ones, in that order."""
        chosen = np.arange(len(self)) if chosen is None else chosen
        tables, first = [], 0
        place = np.empty(len(chosen), dtype=np.int64)
        filled = 0
        for part in self.parts:
            mine = np.flatnonzero((chosen >= first) & (chosen < first + len(part)))
            place[mine] = filled + np.arange(len(mine))
            tables.append(part.table(chosen[mine] - first))
            first += len(part)
            filled += len(mine)
        return join_tables(tables).take(place)

    def match(self, events: EventBatch) -> Hits:
        """Returns the owners of the clauses that hold, for each event; an owner with several clauses may occur more than once."""
        return merge_hits([part.match(events) for part in self.parts], events.size)

    def match_single(self, event: SingleEvent) -> NDArray[np.int64]:
        return np.concatenate([part.match_single(event) for part in self.parts])

    def state(self, slots: NDArray[np.int64] | None = None) -> State:
        return {"kind": self.engine, "parts": [part.state(slots) for part in self.parts]}

    def stats(self) -> tuple[BlockStats, ...]:
        return tuple(block for part in self.parts for block in part.stats())

    def pivot_cost(self, frequency: NDArray[np.float64]) -> PivotCost | None:
        """Adds up the costs of the parts that have pivots."""
        costs = [cost for part in self.parts if (cost := part.pivot_cost(frequency)) is not None]
        return PivotCost(sum(cost.now for cost in costs), sum(cost.again for cost in costs)) if costs else None

    def explain(self, events: EventBatch) -> SegmentPlan:
        """Returns the parts' plans as one plan."""
        plans = [part.explain(events) for part in self.parts]
        partitions = Partitions(
            ", ".join(dict.fromkeys(plan.partitions.of for plan in plans)),
            sum(plan.partitions.visited for plan in plans),
            sum(plan.partitions.skipped for plan in plans),
            sum(plan.partitions.clauses_visited for plan in plans),
            sum(plan.partitions.clauses_skipped for plan in plans),
        )
        return SegmentPlan(
            " + ".join(plan.engine for plan in plans),
            len(self),
            partitions,
            tuple(pipeline for plan in plans for pipeline in plan.pipelines),
            sum(plan.verified for plan in plans),
            sum(plan.matches for plan in plans),
            sum(plan.seconds for plan in plans),
            cached=all(plan.cached for plan in plans),
        )
