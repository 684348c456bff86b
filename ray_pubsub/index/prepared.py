"""The built part of a live index as plain data, so that a loaded index need not be built again.

Slots are numbered anew, without gaps. Clauses of removed subscriptions that blocks still hold belong to one more slot, which is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.decoding import join_tables
from ray_pubsub.columns.saved_state import SavedState, State, check, check_within
from ray_pubsub.engines.contract import Source
from ray_pubsub.engines.segment_state import restored_segment, segment_state
from ray_pubsub.index.live import LiveIndex
from ray_pubsub.index.snapshot import Snapshot
from ray_pubsub.kernels.hits import MULTIPLE, RESIDUAL

__all__ = ["prepared_state", "restore"]


def prepared_state(index: LiveIndex, snapshot: Snapshot, slots: NDArray[np.int64]) -> State:
    """Of the snapshot's clauses of these slots, which ascend. Tails are made blocks, for the file only."""
    count = len(slots)
    number = np.full(len(snapshot.died), count, np.int64)
    number[slots] = np.arange(count)
    unmoved = count == 0 or int(slots[-1]) == count - 1
    blocks, dead = [], False
    for block in (*snapshot.blocks, *_of_tails(index, snapshot, number < count)):
        living = number[block.owners] < count
        if living.any():
            gone = not living.all()
            dead |= gone
            blocks.append(segment_state(block, None if unmoved and not gone else number))
    flags = snapshot.flags[slots] & (MULTIPLE | RESIDUAL)  # a slot may have been removed since
    return {"dead": int(dead), "flags": flags if flags.any() else None, "blocks": blocks}


def _of_tails(index: LiveIndex, snapshot: Snapshot, wanted: NDArray[np.bool_]) -> tuple[Any, ...]:
    tables = [tail.table() for tail in (*snapshot.sealed, snapshot.tail) if len(tail)]
    if not tables:
        return ()
    return index.build(join_tables(tables, [wanted[table.owners[: table.count]] for table in tables]))


def restore(
    index: LiveIndex,
    state: SavedState,
    names: list[str],
    count: int,
    options: Mapping[str, Any],
    source_of: Callable[[int], Source],
) -> bool:
    """Fills an empty index; whether there is a slot for what was removed, behind the others. `names`: of the attributes; `options`: of
    the engine; `source_of`: the source of a slot whose clauses do not decide. Raises UnfitStateError."""
    index.vocabulary.attributes.numbers(names)
    dead = state.number("dead", 0, 1)
    flags = np.zeros(count + dead, np.uint8)
    if state.has("flags"):
        flags[:count] = state.array("flags", np.uint8, count)
        check_within(flags, 0, MULTIPLE | RESIDUAL, "flags")
    slots = len(flags)
    blocks = [restored_segment(block, index.vocabulary, slots, options) for block in state.states("blocks")]
    check(all(map(len, blocks)), "blocks without clauses")
    residual = {slot: source_of(slot) for slot in np.flatnonzero(flags & RESIDUAL).tolist()}
    index.restore(tuple(blocks), flags, bool(dead), residual)
    return bool(dead)
