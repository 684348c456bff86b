"""The built part of a segmented index as plain data, so that a loaded index need not be built again.

Slots are renumbered, without gaps. Clauses of removed subscriptions that segments still hold belong to one more slot, which is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.decoding import join_tables
from ray_pubsub.columns.saved_state import SavedState, State, UnfitStateError, check, check_within
from ray_pubsub.engines.contract import Segment, Source
from ray_pubsub.engines.segment_state import restored_segment
from ray_pubsub.errors import ExpressionError
from ray_pubsub.kernels.index.hits import MULTIPLE, RESIDUAL

if TYPE_CHECKING:
    from ray_pubsub.index.segmented_index import SegmentedIndex

__all__ = ["BuiltSegments", "restore"]

AT_ONCE = 1 << 17
"""The number of clauses that are read back from a segment at a time."""


class BuiltSegments:
    """The built part of an index at one version; the index may change while this is read."""

    def __init__(self, index: SegmentedIndex) -> None:
        self._index, self._snapshot = index, index.snapshot
        self.vocabulary = index.vocabulary

    def state(self, slots: NDArray[np.int64]) -> State:
        """Returns the state of the clauses of these slots, which ascend. Tails are saved as segments."""
        snapshot, count = self._snapshot, len(slots)
        number = np.full(len(snapshot.died), count, np.int64)
        number[slots] = np.arange(count)
        unmoved = count == 0 or int(slots[-1]) == count - 1
        blocks, dead = [], False
        for block in (*snapshot.blocks, *self._of_tails(number < count)):
            living = number[block.owners] < count
            if living.any():
                gone = not living.all()
                dead |= gone
                blocks.append(block.state(None if unmoved and not gone else number))
        flags = snapshot.flags[slots] & (MULTIPLE | RESIDUAL)  # a slot may have been removed meanwhile
        known = self._index.frequency.state()
        return {"dead": int(dead), "flags": flags if flags.any() else None, "blocks": blocks, "frequency": known}

    def tables_of(self, slots: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], ClauseTable]]:
        """Yields the clauses of these slots, which ascend, part by part: the place of each clause's owner in `slots`, and the clauses."""
        if not len(slots):
            return
        place_of = np.full(len(self._snapshot.died), -1, np.int64)
        place_of[slots] = np.arange(len(slots))
        for part in self._snapshot.parts:
            found = place_of[part.owners[: len(part)]]
            chosen = np.flatnonzero(found >= 0)
            chosen = chosen[np.argsort(found[chosen], kind="stable")]
            for start in range(0, len(chosen), AT_ONCE):
                some = chosen[start : start + AT_ONCE]
                yield found[some], part.table(some)

    def _of_tails(self, wanted: NDArray[np.bool_]) -> tuple[Segment, ...]:
        tables = [tail.table() for tail in (*self._snapshot.sealed, self._snapshot.tail) if len(tail)]
        return self._index.build(join_tables(tables, [wanted[table.owners[: table.count]] for table in tables]))


def restore(
    index: SegmentedIndex, state: SavedState, names: list[str], count: int, source_of: Callable[[int], Source]
) -> bool:
    """Fills an empty index; see Engine.restore."""
    try:
        index.vocabulary.attributes.numbers(names)
    except ExpressionError as error:
        raise UnfitStateError("a computed attribute whose name is no term") from error
    dead = state.number("dead", 0, 1)
    flags = np.zeros(count + dead, np.uint8)
    if state.has("flags"):
        flags[:count] = state.array("flags", np.uint8, count)
        check_within(flags, 0, MULTIPLE | RESIDUAL, "flags")
    if state.has("frequency"):  # older releases saved none
        index.frequency.restore(state.state("frequency"))
    slots, shares = len(flags), index.frequency.of(index.vocabulary)
    blocks = [
        restored_segment(block, index.vocabulary, slots, index.options, shares) for block in state.states("blocks")
    ]
    check(all(map(len, blocks)), "blocks without clauses")
    residual = {slot: source_of(slot) for slot in np.flatnonzero(flags & RESIDUAL).tolist()}
    index.take_over(tuple(blocks), flags, bool(dead), residual)
    return bool(dead)
