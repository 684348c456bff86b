"""Restores segments of every kind from their saved state.

Dense segments and pivot lists are saved as they are in memory. For the papers' engines and for conjunctions of disjunctions, the coded
clauses are saved and the engine's own index is rebuilt: this takes longer than reading, but saves the coding.

A state is checked wherever kernels use it for positions in memory: a forged state can give wrong matches, or an exception later, but no
access beyond an array.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ray_pubsub.columns.saved_state import SavedState, UnfitStateError, check
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.cnf.segment import CnfSegment
from ray_pubsub.engines.contract import Frequency, Segment
from ray_pubsub.engines.flag_segment import FlagSegment
from ray_pubsub.engines.mixed_segment import MixedSegment
from ray_pubsub.engines.registry import ENGINES
from ray_pubsub.engines.shared_segment import SharedSegment

__all__ = ["LAYOUT", "restored_segment"]

LAYOUT = 5
"""The version of all states' layout. Raise it with every change of what a state holds or of what a number in it means: an index whose
blocks were saved in another layout is built from its subscriptions instead."""

DEEPEST = 3
"""The deepest nesting: a shared segment of a mixed one of plain ones."""


def restored_segment(
    state: SavedState,
    vocabulary: Vocabulary,
    slots: int,
    options: Mapping[str, Any],
    frequency: Frequency = None,
    depth: int = 0,
) -> Segment:
    """Owners must be below `slots`; `options` are those of the index's engine; `frequency` is used for what is rebuilt. Raises
    UnfitStateError."""
    kind = state.word("kind")
    check(depth < DEEPEST, "segments within segments")
    if kind == SharedSegment.engine:
        groups = int(state.array("group", np.int32, None).max(initial=-1)) + 1
        inside = restored_segment(state.state("inside"), vocabulary, groups, options, frequency, depth + 1)
        check(len(inside) == groups, "groups without a clause")
        return SharedSegment.restored(state, slots, inside)
    if kind == MixedSegment.engine:
        parts = [
            restored_segment(part, vocabulary, slots, options, frequency, depth + 1) for part in state.states("parts")
        ]
        check(parts, "no parts")
        return MixedSegment(parts)
    if kind == CnfSegment.engine:
        return CnfSegment.restored(state, vocabulary, slots, frequency)
    if kind == FlagSegment.engine:
        return FlagSegment.restored(state, vocabulary, slots)
    entry = ENGINES.get(kind)
    if entry is None or entry.segment is None:
        raise UnfitStateError(f"no segments of kind {kind!r}")
    return entry.segment.restored(state, vocabulary, slots, frequency, **options)
