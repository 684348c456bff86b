"""Segments of every kind as plain data, and back.

Dense segments and pivot lists are kept as they lie in memory. Of the papers' engines and of conjunctions of disjunctions the coded clauses
are kept, and the engine's own index is built anew: it takes longer than reading, but spares coding.

What is read back is checked as far as kernels use it for places in memory: a state that was made up can give wrong matches, or
an exception later, but no access beyond an array.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.saved_state import SavedState, State, UnfitStateError, check
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.cnf_segment import CnfSegment
from ray_pubsub.engines.coded_segment import CodedClauses, CodedSegment
from ray_pubsub.engines.contract import Segment
from ray_pubsub.engines.dense_segment import DenseSegment
from ray_pubsub.engines.dexin import DexinSegment
from ray_pubsub.engines.gem import GemSegment
from ray_pubsub.engines.mixed_segment import MixedSegment
from ray_pubsub.engines.opindex import OpIndexSegment
from ray_pubsub.engines.pivot_block import PivotBlock
from ray_pubsub.engines.rein import ReinSegment
from ray_pubsub.engines.shared_segment import SharedSegment

__all__ = ["LAYOUT", "restored_segment", "segment_state"]

LAYOUT = 1
"""Of all states. Raised with every change of what a state holds, or of what a number in it means: an index whose blocks were saved in
another layout is built from its subscriptions instead."""

BY_ADDRESS: dict[str, type[DenseSegment] | type[PivotBlock]] = {"dense": DenseSegment, "pivot": PivotBlock}
CODED: dict[str, type[CodedSegment]] = {
    segment.engine: segment for segment in (DexinSegment, GemSegment, OpIndexSegment, ReinSegment)
}
DEEPEST = 3
"""A shared segment of a mixed one of plain ones."""


def segment_state(segment: Segment, slots: NDArray[np.int64] | None = None) -> State:
    """`slots`: the number that stands for each slot, if it is not itself."""
    match segment:
        case DenseSegment():
            return {"kind": "dense", **segment.state(slots)}
        case PivotBlock():
            return {"kind": "pivot", **segment.state(slots)}
        case SharedSegment():
            return {"kind": "shared", **segment.state(slots), "inside": segment_state(segment.inside)}
        case MixedSegment():
            return {"kind": "mixed", "parts": [segment_state(part, slots) for part in segment.parts]}
        case CnfSegment():
            return {"kind": "cnf", **CodedClauses(segment.coded, segment.owners).state(slots)}
        case CodedSegment():
            return {"kind": segment.engine, **CodedClauses(segment.coded, segment.owners).state(slots)}
    raise AssertionError(f"no state of a {type(segment).__name__}")


def restored_segment(
    state: SavedState, vocabulary: Vocabulary, slots: int, options: Mapping[str, Any], depth: int = 0
) -> Segment:
    """Owners are below `slots`; `options` are those of the index's engine. Raises UnfitStateError."""
    kind = state.word("kind")
    check(depth < DEEPEST, "segments within segments")
    if kind in BY_ADDRESS:
        return BY_ADDRESS[kind].restored(state, vocabulary, slots)
    if kind == "shared":
        groups = int(state.array("group", np.int32, None).max(initial=-1)) + 1
        inside = restored_segment(state.state("inside"), vocabulary, groups, options, depth + 1)
        check(len(inside) == groups, "groups without a clause")
        return SharedSegment.restored(state, slots, inside)
    if kind == "mixed":
        parts = [restored_segment(part, vocabulary, slots, options, depth + 1) for part in state.states("parts")]
        check(parts, "no parts")
        return MixedSegment(parts)
    if kind == "cnf":
        return CnfSegment(CodedClauses.restored(state, vocabulary, slots), vocabulary)
    if kind in CODED:
        make: Any = CODED[kind]
        return make(CodedClauses.restored(state, vocabulary, slots), vocabulary, None, **options)  # type: ignore[no-any-return]
    raise UnfitStateError(f"no segments of kind {kind!r}")
