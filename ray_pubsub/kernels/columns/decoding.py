"""Converts codes back to bounds, the inverse of kernels/columns/coding.py, for tests that are one interval of numbers, booleans or
timestamps."""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.columns.code_space import tracks_at
from ray_pubsub.kernels.compiled import compiled

__all__ = ["decode_intervals", "keep_records"]

NO_BOUND = 2
STRING = 1


@compiled
def decode_intervals(records, kinds, attributes, space, tests, kind, plain):
    """Fills in test records. Per record: `kind`, the run of codes that `low` lies in (-1: absence, or a pattern's column), and whether it
    is `plain`, so that the record is complete. Offset 2r + 1 + side in a track is the cut at that side of operand r; 0 and beyond all
    operands are no bound."""
    column, low, high = records
    base, count, least, start, operand_whole, operand_rest = tracks_at(space, 0)
    for test in range(len(column)):
        plain[test] = False
        kind[test] = -1
        if column[test] >= len(attributes):
            continue
        first = column[test] * kinds
        run = -1
        while run + 1 < kinds and base[first + run + 1] <= low[test]:
            run += 1
        kind[test] = run
        record = tests[test]
        record.attribute = attributes[column[test]]
        if run < 0:
            continue
        track = first + run
        record.kind = run
        if run == STRING or high[test] > base[track] + 2 * count[track]:
            continue
        plain[test] = True
        for upper in range(2):
            cut = high[test] + 1 - base[track] if upper else low[test] - base[track]
            side, whole, rest = NO_BOUND, np.int64(0), 0.0
            if 0 < cut <= 2 * count[track]:
                side = (cut - 1) & 1
                rank = (cut - 1) >> 1
                if least[track] != np.iinfo(np.int64).min:  # direct
                    whole = least[track] + rank
                else:
                    whole, rest = operand_whole[start[track] + rank], operand_rest[start[track] + rank]
            if upper:
                record.high_side, record.high_whole, record.high_rest = side, whole, rest
            else:
                record.low_side, record.low_whole, record.low_rest = side, whole, rest


@compiled
def keep_records(offsets, tests, keep, at, out):
    """Copies the tests of the clauses to be kept to `out` from `at` on; returns where they end."""
    for clause in range(len(offsets) - 1):
        if keep[clause]:
            for test in range(offsets[clause], offsets[clause + 1]):
                out[at] = tests[test]
                at += 1
    return at
