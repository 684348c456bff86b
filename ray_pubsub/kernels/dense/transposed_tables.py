"""Builds tables of masks, one bit per event, and the masks of clauses from them (kernels/dense/transposed_match.py)."""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.dense.transposed_rows import ROWS
from ray_pubsub.kernels.intrinsics import (
    and_rows_64,
    and_rows_128,
    and_rows_256,
    and_rows_512,
    or_rows_64,
    or_rows_128,
    or_rows_256,
    or_rows_512,
)

__all__ = ["make_masks", "make_tables"]

ZERO, ONE = np.uint64(0), np.uint64(1)


@compiled
def make_tables(chunk, least, low_row, width, table, counts):
    """Tables of masks over the events of the chunk, event chunk[i] being bit i; only of rows that the group's clauses list."""
    columns = len(least) // 2
    size = 8 * width
    counts_at, table_at = counts.ctypes.data, table.ctypes.data
    for column in range(columns):
        lows, highs = ROWS - np.int64(least[column]), ROWS - np.int64(least[columns + column])
        if lows + highs == 0:
            continue
        counts[: ROWS * width] = ZERO
        row_of_event = low_row[column]
        for place in range(len(chunk)):
            row = np.int64(row_of_event[chunk[place]])
            counts[row * width + (place >> 6)] |= ONE << np.uint64(place & 63)
        low_from, low_to = counts_at + (ROWS - 1) * size, table_at + (column * ROWS + ROWS - 1) * size
        high_from, high_to = counts_at + size, table_at + ((columns + column) * ROWS + ROWS - 1) * size
        if width == 8:
            or_rows_512(low_from, -1, low_to, lows)
        elif width == 4:
            or_rows_256(low_from, -1, low_to, lows)
        elif width == 2:
            or_rows_128(low_from, -1, low_to, lows)
        else:
            or_rows_64(low_from, -1, low_to, lows)
        for word in range(width):
            counts[width + word] |= counts[word]  # absence, row 0, is within every high bound
        if width == 8:
            or_rows_512(high_from, 1, high_to, highs)
        elif width == 4:
            or_rows_256(high_from, 1, high_to, highs)
        elif width == 2:
            or_rows_128(high_from, 1, high_to, highs)
        else:
            or_rows_64(high_from, 1, high_to, highs)


@compiled
def make_masks(start, end, clauses_quads, listed_at, width, table, masks, filled):
    """Returns the masks of clauses start … end - 1; in `filled` a bit for each of their words that is not zero. Returns where the next
    rows are."""
    table_at, masks_at = table.ctypes.data, masks.ctypes.data
    size = 8 * width
    for clause in range(start, end):
        quads = np.int64(clauses_quads[clause])
        target = masks_at + (clause - start) * size
        if width == 8:
            some = and_rows_512(table_at, listed_at, quads, target)
        elif width == 4:
            some = and_rows_256(table_at, listed_at, quads, target)
        elif width == 2:
            some = and_rows_128(table_at, listed_at, quads, target)
        else:
            some = and_rows_64(table_at, listed_at, quads, target)
        filled[clause - start] = some
        listed_at += 8 * quads
    for place in range(end - start, (end - start + 7) & ~7):
        filled[place] = 0
    return listed_at
