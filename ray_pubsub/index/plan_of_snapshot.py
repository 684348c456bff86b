"""The plan of a match against a snapshot: what every block and tail does, and what is removed from their matches afterwards."""

from __future__ import annotations

import numpy as np

from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.explain.plan import IndexPlan, Partitions, Pipeline, SegmentPlan, Step
from ray_pubsub.engines.explain.trace import timed
from ray_pubsub.index.explanation import on_one_line
from ray_pubsub.index.snapshot import Snapshot
from ray_pubsub.index.tail import TailView
from ray_pubsub.kernels.index.hits import RESIDUAL
from ray_pubsub.language.printer import show_value, write_subject
from ray_pubsub.language.terms import is_computed
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["explain_snapshot"]


def explain_snapshot(snapshot: Snapshot, events: EventBatch, vocabulary: Vocabulary) -> IndexPlan:
    """Explains the match of a batch of one event."""
    hits, seconds = timed(lambda batch: snapshot.match(batch, vocabulary), events)
    segments = tuple(block.explain(events) for block in snapshot.blocks)
    tails = [tail for tail in (*snapshot.sealed, snapshot.tail) if tail.clauses]
    found = [block.match(events).slots for block in snapshot.blocks]
    found += [tail.match(events, vocabulary).slots for tail in tails]
    slots = np.concatenate([np.empty(0, np.int64), *found])
    living = slots[snapshot.died[slots] > snapshot.version]
    distinct = np.unique(living)
    return IndexPlan(
        segments=segments,
        tails=tuple(_tail_plan(tail, events, vocabulary) for tail in tails),
        removed=len(slots) - len(living),
        repeated=len(living) - len(distinct),
        asked=int((snapshot.flags[distinct] & RESIDUAL > 0).sum()),
        refused=len(distinct) - len(hits.slots),
        matches=len(hits.slots),
        seconds=seconds,
        computed=_computed(events),
    )


def _computed(events: EventBatch) -> tuple[tuple[str, str], ...]:
    """Returns the values of computed attributes. Flags are not shown: they are tests of single constants on a list or a place, not
    values."""
    (row,) = events.rows()
    found = [(write_subject(name), on_one_line(show_value(value))) for name, value in row.items() if is_computed(name)]
    return tuple(sorted(found))


def _tail_plan(tail: TailView, events: EventBatch, vocabulary: Vocabulary) -> SegmentPlan:
    hits, seconds = timed(lambda batch: tail.match(batch, vocabulary), events)
    count, found = tail.clauses, len(hits.slots)
    pipeline = Pipeline("all clauses", count, (Step("", "scanned, record by record", None, found),))
    return SegmentPlan("tail", count, Partitions("whole", 1, 0, count, 0), (pipeline,), count, found, seconds)
