"""What a clause asks of the transposed kernel (kernels/dense/transposed_match.py): one row of a mask table per bound.

A clause has a lane per column and direction, with a byte in which "the event's byte is at least mine" is right: the low code, and 255 - the
high code (kernels/dense/bitmaps.py, build_rows); 0 is free. The bytes of a lane fall into 64 rows, monotone; row 0 is the free byte alone,
so that an absent value, whose low byte is 0, is in no other row of a low lane. Only bounds that are not free are listed, in fours.
"""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.dense.bitmaps import buckets_of_codes

__all__ = ["GROUP", "ROWS", "count_quads", "list_rows"]

ROWS = 64
"""Rows per lane. At 32 candidates are 1.8 times the matches, at 64 1.4 times, at 128 1.2 times, but with tables twice as large."""
GROUP = 4096
"""Clauses per group: neighbours in clustered order, which share their tables and the events that may matter to one of them. 2,048 and 8,192
are equal within noise; groups of varying size, cut where boxes are small (384 events instead of 502 left of 1,024), won 3 %."""


@compiled
def count_quads(rows, columns, quads):
    """quads[clause] = fours of bounds that are not free, at least one."""
    for clause in range(rows.shape[0]):
        bounds = 0
        for lane in range(2 * columns):
            bounds += rows[clause, lane] != 0
        quads[clause] = max(1, (bounds + 3) >> 2)


@compiled
def list_rows(rows, columns, quads, starts, listed, outer, least):
    """Writes the rows of the clauses to `listed`, each as 8 * (64 * lane + row), a short four filled up with row 0 of lane 0,
    which every event is in. Group g is the clauses starts[g] … starts[g + 1] - 1. outer[g, lane] = the least row of its
    clauses (0: it limits nothing), least[g, lane] = the least that is listed (64: none)."""
    at = 0
    row_of_code = buckets_of_codes(ROWS)
    row_of_byte = np.zeros((2 * columns, 256), np.uint8)
    for column in range(columns):
        for byte in range(1, 255):
            row_of_byte[column, byte] = row_of_code[byte]
            row_of_byte[columns + column, byte] = ROWS - row_of_code[255 - byte]
    outer[:] = ROWS
    least[:] = ROWS
    least[:, 0] = 0
    for group in range(len(starts) - 1):
        limits, used = outer[group], least[group]
        for clause in range(starts[group], starts[group + 1]):
            end = at + 4 * np.int64(quads[clause])
            for lane in range(2 * columns):
                row = row_of_byte[lane, rows[clause, lane]]
                listed[at] = 8 * (ROWS * lane + row)
                at += row != 0  # an entry behind the last one is written over, or is spare room
                limits[lane] = min(limits[lane], row)
                used[lane] = min(used[lane], row if row != 0 else ROWS)
            while at < end:
                listed[at] = 0
                at += 1
