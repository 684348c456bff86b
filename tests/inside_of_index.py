"""The segmented index inside a MatchIndex, for tests that look at its blocks or decide when it merges."""

from __future__ import annotations

from ray_pubsub import MatchIndex
from ray_pubsub.index.segmented_index import SegmentedIndex


def segmented(index: MatchIndex) -> SegmentedIndex:
    engine = index._books.engine
    assert isinstance(engine, SegmentedIndex)
    return engine
