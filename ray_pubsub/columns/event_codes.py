"""Events in the code space of a block: for every event its columns and codes; a column it has not is absent (code 0)."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.coding import KINDS, MATCH, NO_MATCH, CodeSpace
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.kernels.cells import order_by_row
from ray_pubsub.kernels.coding import encode_lanes
from ray_pubsub.language.patterns import compile_regexp, like_to_regexp
from ray_pubsub.language.tree import Like, Regexp
from ray_pubsub.model.event_batch import EventBatch, Lane
from ray_pubsub.model.values import Kind

__all__ = ["EventCodes", "encode_events"]


@dataclass(slots=True, eq=False)
class EventCodes:
    """Event i has the codes `code[offsets[i]:offsets[i + 1]]` in the columns beside them."""

    offsets: NDArray[np.int64]
    column: NDArray[np.int32]
    code: NDArray[np.int32]


def encode_events(batch: EventBatch, space: CodeSpace, vocabulary: Vocabulary) -> EventCodes:
    """The codes of a batch; what no clause of the block tests is left out."""
    lane_attribute, lane_kind = _numbered(batch, vocabulary)
    lane_column = space.columns_of(lane_attribute)
    lane_track = np.where((lane_column < 0) | (lane_kind == Kind.STRING), -1, lane_column * KINDS + lane_kind).astype(
        np.int32
    )
    cells = batch.cells()
    codes = np.empty(len(cells.rows), dtype=np.int32)
    arrays = (space.base, space.count, space.least, space.start, space.operand_whole, space.operand_rest)
    encode_lanes(lane_track, cells.offsets, cells.whole, cells.rest, *arrays, codes)
    patterned = _patterns_by_attribute(space)
    extra: list[tuple[int, NDArray[np.int32], NDArray[np.int32]]] = []  # column, rows, codes
    for number in np.flatnonzero((lane_kind == Kind.STRING) & (lane_column >= 0)).tolist():
        lane, column = batch.lanes[number], int(lane_column[number])
        codes[cells.offsets[number] : cells.offsets[number + 1]] = _string_codes(space, column, lane)[lane.whole]
        for pattern_column, leaf in patterned.get(int(space.attributes[column]), ()):
            rows = cells.rows[cells.offsets[number] : cells.offsets[number + 1]]
            extra.append((pattern_column, rows, _pattern_codes(leaf, lane)[lane.whole]))
    lane_offsets, rows = cells.offsets, cells.rows
    if extra:
        lengths = [len(part[1]) for part in extra]
        lane_column = np.concatenate([lane_column, np.array([part[0] for part in extra], dtype=np.int32)])
        lane_offsets = np.concatenate([lane_offsets, lane_offsets[-1] + np.cumsum(lengths)])
        rows = np.concatenate([rows, *(part[1] for part in extra)])
        codes = np.concatenate([codes, *(part[2] for part in extra)])
    offsets = np.zeros(batch.size + 1, dtype=np.int64)
    column_out, code_out = np.empty(len(rows), dtype=np.int32), np.empty(len(rows), dtype=np.int32)
    used = order_by_row(lane_column, lane_offsets, rows, codes, offsets, column_out, code_out)
    return EventCodes(offsets, column_out[:used], code_out[:used])


def _numbered(batch: EventBatch, vocabulary: Vocabulary) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Attribute number (-1: in no subscription) and kind of each lane; found once per batch, not once per block."""
    known = batch.numbered
    if known is None or known[0] is not vocabulary or known[1] != len(vocabulary.attributes):
        attributes = len(vocabulary.attributes)
        numbers = np.array([vocabulary.attributes.find(lane.attribute) for lane in batch.lanes], dtype=np.int32)
        kinds = np.array([lane.kind for lane in batch.lanes], dtype=np.int32)
        known = batch.numbered = (vocabulary, attributes, numbers, kinds)
    return known[2], known[3]


def _string_codes(space: CodeSpace, column: int, lane: Lane) -> NDArray[np.int32]:
    """Code of each distinct string of the lane."""
    base = int(space.base[column * KINDS + Kind.STRING])
    operands, ranks = space.strings.get(column, []), space.string_ranks.get(column, {})
    assert lane.strings is not None
    codes = []
    for text in lane.strings:
        rank = ranks.get(text)
        codes.append(base + 2 * rank + 1 if rank is not None else base + 2 * bisect_left(operands, text))
    return np.array(codes, dtype=np.int32)


def _patterns_by_attribute(space: CodeSpace) -> dict[int, list[tuple[int, Like | Regexp]]]:
    found: dict[int, list[tuple[int, Like | Regexp]]] = {}
    for number, pattern in enumerate(space.patterns):
        found.setdefault(pattern.attribute, []).append((len(space.attributes) + number, pattern.leaf))
    return found


def _pattern_codes(leaf: Like | Regexp, lane: Lane) -> NDArray[np.int32]:
    program = (
        like_to_regexp(leaf.pattern.plain, leaf.escape)
        if isinstance(leaf, Like)
        else compile_regexp(leaf.pattern.plain)
    )
    assert lane.strings is not None
    return np.array([MATCH if program.search(text) is not None else NO_MATCH for text in lane.strings], dtype=np.int32)
