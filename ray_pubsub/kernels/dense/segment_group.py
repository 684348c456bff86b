"""Matches one event against several dense segments in one call, so that the cost of a call and of releasing the GIL is paid once, not for
every small block."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import carray

from ray_pubsub.kernels.columns.code_space import tracks_at
from ray_pubsub.kernels.columns.coding import RANKED, direct_offset, ranked_offset
from ray_pubsub.kernels.compiled import compiled, inlined
from ray_pubsub.kernels.dense.check import ClauseBytes, DenseScratch
from ray_pubsub.kernels.dense.clustering import EDGES, FREE_LOW
from ray_pubsub.kernels.dense.match import BlockTables, match_dense_event
from ray_pubsub.kernels.intrinsics import pointer_float64, pointer_int32, pointer_int64

__all__ = ["FIELDS", "GROUPS", "append_dense_run", "match_dense_group"]

GROUPS = 128
FIELDS = 24
"""The integers of a segment, as DenseFields names them."""
CODES = 256


class DenseFields(NamedTuple):
    """What one segment and the lanes of an event are for the kernel: numbers, and the addresses of arrays."""

    clauses: ClauseBytes
    edges: Any
    least: Any
    bucket: Any
    group: Any
    rate: Any
    """The addresses of BlockTables' arrays."""
    track: Any
    column: Any
    """The addresses of the track and of the column of each lane."""


SPACE = 14
"""Where the eight integers of the code space begin (kernels/columns/code_space.py)."""


@inlined
def _fields(row):
    clauses = ClauseBytes(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8])
    return DenseFields(clauses, row[9], row[10], row[11], row[12], row[13], row[22], row[23])


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
        fields = _fields(segments[segment])
        clauses, columns = fields.clauses, fields.clauses.columns
        base, count, least, start, operand_whole, operand_rest = tracks_at(segments[segment], SPACE)
        track = carray(pointer_int32(fields.track), (lanes,))
        column = carray(pointer_int32(fields.column), (lanes,))
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
            carray(pointer_int32(fields.edges), (columns, EDGES)),
            carray(pointer_int32(fields.least), (columns, CODES)),
            carray(pointer_int64(fields.bucket), (CODES,)),
            carray(pointer_int64(fields.group), (CODES,)),
            carray(pointer_float64(fields.rate), (columns, GROUPS)),
        )
        out, filled = match_dense_event(event, tables, clauses, scratch, out, filled)
    return out, filled
