"""Matches one event against several dense segments in one call, so that the cost of a call and of releasing the GIL is paid once, not for
every small block."""

from __future__ import annotations

import numpy as np
from numba import carray

from ray_pubsub.kernels.columns.code_space import tracks_at
from ray_pubsub.kernels.columns.coding import RANKED, direct_offset, ranked_offset
from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.dense.check import ClauseBytes, DenseScratch
from ray_pubsub.kernels.dense.clustering import EDGES, FREE_LOW
from ray_pubsub.kernels.dense.match import BlockTables, match_dense_event
from ray_pubsub.kernels.intrinsics import pointer_float64, pointer_int32, pointer_int64

__all__ = ["FIELDS", "GROUPS", "append_dense_run", "match_dense_group"]

GROUPS = 128
FIELDS = 24
"""Of a segment: ClauseBytes' nine; then the addresses of edges, least bounds, buckets, groups, rates; the eight integers of the code space
(kernels/columns/code_space.py); the addresses of the lanes' tracks and columns."""
CODES = 256


@compiled
def match_dense_group(segments, whole, rest, texts, live, lines, bits, places):
    """What the matching clauses of all segments carry."""
    scratch = DenseScratch(live, lines, bits, places)
    out, filled = append_dense_run(segments, whole, rest, texts, scratch, np.empty(64, np.int64), 0)
    return out[:filled]


@compiled
def append_dense_run(segments, whole, rest, texts, scratch, out, filled):
    """What the matching clauses of all segments carry, from out[filled] on. Returns `out`, which may have had to grow, and the new fill.
    `segments`: int64[segment, FIELDS]. The event has a value per lane; the codes of lanes of strings are in texts[segment, lane]."""
    lanes = len(whole)
    for segment in range(len(segments)):
        this = segments[segment]
        clauses = ClauseBytes(this[0], this[1], this[2], this[3], this[4], this[5], this[6], this[7], this[8])
        columns = this[8]
        base, count, least, start, operand_whole, operand_rest = tracks_at(this, 14)
        track = carray(pointer_int32(this[22]), (lanes,))
        column = carray(pointer_int32(this[23]), (lanes,))
        event = np.full(columns, FREE_LOW, np.int32)
        for lane in range(lanes):
            if column[lane] < 0:
                continue
            number = track[lane]
            if number < 0:
                event[column[lane]] = texts[segment, lane]
                continue
            if least[number] != RANKED:
                offset = direct_offset(whole[lane], rest[lane], count[number], least[number])
            else:
                offset = ranked_offset(
                    whole[lane], rest[lane], count[number], start[number], operand_whole, operand_rest
                )
            event[column[lane]] = base[number] + offset
        tables = BlockTables(
            carray(pointer_int32(this[9]), (columns, EDGES)),
            carray(pointer_int32(this[10]), (columns, CODES)),
            carray(pointer_int64(this[11]), (CODES,)),
            carray(pointer_int64(this[12]), (CODES,)),
            carray(pointer_float64(this[13]), (columns, GROUPS)),
        )
        out, filled = match_dense_event(event, tables, clauses, scratch, out, filled)
    return out, filled
