"""The segmented index inside a MatchIndex, for tests that look at its blocks or decide when it merges."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.engines.selection import cost_formulas
from ray_pubsub.index.segmented_index import SegmentedIndex


def prefer_bitmaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the cost model forget states of clauses (kernels/pivot/clause_states.py), so that small crowded blocks are dense."""
    monkeypatch.setattr(cost_formulas, "MOST_COMPARED", -1.0)


def segmented(index: MatchIndex) -> SegmentedIndex:
    engine = index._books.engine
    assert isinstance(engine, SegmentedIndex)
    return engine


def merge_all(index: SegmentedIndex) -> None:
    """Merges everything into one block, without removed subscriptions."""
    maintenance = index.maintenance
    # Inline, maintenance runs under the writer's lock; the two locks are always taken in the same order.
    with nullcontext() if maintenance.background else index.writing, maintenance._one_at_a_time:
        with index.writing:
            if index.snapshot.tail.clauses:
                index.seal()
        while index.snapshot.sealed:
            maintenance._build_sealed()
        if index.snapshot.blocks:
            maintenance._merge(list(index.snapshot.blocks))
