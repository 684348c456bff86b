"""Converts tests that are sets from runs of records (columns/clause_table.py) to pieces in the code space, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.columns.code_space import tracks_at
from ray_pubsub.kernels.compiled import compiled

__all__ = ["OPAQUE", "POINTS_OUT", "distinct_pairs", "join_runs", "list_records", "record_sizes"]

CONTINUED, EXCLUDED = 4, 8
STRING = 1
FEW = 24
"""Pieces up to which they are sorted by insertion."""
UNION, POINTS_OUT, OPAQUE = 0, 1, 2
"""How a test is written as records: a record per piece; one per point it does not admit; not at all."""
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def distinct_pairs(column: NDArray[Any], number: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """which[i] = the place of (column[i], number[i]) among the distinct pairs; first[place] = where the pair occurs first.

    numpy allocates, in large pages: in the kernel, the page faults took longer than the work."""
    bits = max(4, int(2 * len(column) - 1).bit_length())
    which, first = np.empty(len(column), np.int64), np.empty(len(column), np.int64)
    found = find_pairs(column, number, np.full(1 << bits, -1, np.int32), which, first)
    return which, first[:found].copy()


@compiled
def find_pairs(column, number, table, which, first):
    """Fills `which` and `first`; `table` has room for twice as many. Returns how many distinct pairs there are."""
    mask = np.uint64(len(table) - 1)
    found = 0
    for row in range(len(column)):
        key = (np.uint64(column[row]) << np.uint64(40)) ^ np.uint64(number[row])
        key *= MULTIPLIER
        place = (key ^ (key >> np.uint64(32))) & mask
        while True:
            other = table[place]
            if other < 0:
                table[place] = found
                first[found] = row
                which[row] = found
                found += 1
                break
            at = first[other]
            if column[at] == column[row] and number[at] == number[row]:
                which[row] = other
                break
            place = (place + np.uint64(1)) & mask
    return found


@compiled
def _sort_pieces(low, high, start, end):
    if end - start > FEW:
        order = np.argsort(low[start:end])
        low[start:end] = low[start:end][order]
        high[start:end] = high[start:end][order]
        return
    for piece in range(start + 1, end):
        first, last = low[piece], high[piece]
        place = piece
        while place > start and low[place - 1] > first:
            low[place], high[place] = low[place - 1], high[place - 1]
            place -= 1
        low[place], high[place] = first, last


@compiled
def join_runs(offsets, form, records, track, space, out_offsets, tests, pieces):
    """Records to tests and their pieces. Returns how many tests have more than one piece, and how many pieces those have together."""
    column, low, high = records
    base, count, _, _, _, _ = tracks_at(space, 0)
    out_column, out_low, out_high = tests
    numbers, piece_offsets, piece_low, piece_high = pieces
    test = 0
    several = 0
    used = 0
    out_offsets[0] = 0
    for clause in range(len(offsets) - 1):
        record = offsets[clause]
        while record < offsets[clause + 1]:
            head = record
            start = end = used
            while record == head or (record < offsets[clause + 1] and form[record] & CONTINUED):
                if low[record] <= high[record]:
                    piece_low[end], piece_high[end] = low[record], high[record]
                    end += 1
                record += 1
            _sort_pieces(piece_low, piece_high, start, end)
            if form[head] & EXCLUDED:
                # Gaps between the points, from the end of the track on: written behind what is read last.
                begin, last = base[track[head]], base[track[head]] + 2 * count[track[head]]
                next_low = begin
                kept = start
                for place in range(start, end):
                    point = piece_low[place]
                    if place > start and point < next_low:
                        continue  # the same point again
                    piece_low[kept], piece_high[kept] = next_low, point - 1
                    kept += 1
                    next_low = point + 1
                piece_low[kept], piece_high[kept] = next_low, last
                end = kept + 1
            else:
                kept = start
                for place in range(start + 1, end):
                    if piece_low[place] <= piece_high[kept] + 1:
                        piece_high[kept] = max(piece_high[kept], piece_high[place])
                    else:
                        kept += 1
                        piece_low[kept], piece_high[kept] = piece_low[place], piece_high[place]
                end = kept + 1
            out_column[test] = column[head]
            out_low[test], out_high[test] = piece_low[start], piece_high[end - 1]
            numbers[test] = -1
            if end - start > 1:
                numbers[test] = several
                several += 1
                piece_offsets[several] = end
                used = end
            test += 1
        out_offsets[clause + 1] = test
    return several, used


@compiled
def record_sizes(column, pieces, attributes, kinds, space, form, size):
    """Per test, how it is written as records and how many it takes (kernels/columns/decoding.py fills them in)."""
    numbers, piece_offsets, piece_low, piece_high = pieces
    base, count, _, _, _, _ = tracks_at(space, 0)
    for test in range(len(column)):
        form[test], size[test] = UNION, 1
        if numbers[test] < 0:
            continue
        start, end = piece_offsets[numbers[test]], piece_offsets[numbers[test] + 1]
        if column[test] >= attributes:
            form[test] = OPAQUE
            continue
        first = column[test] * kinds
        text = base[first + STRING]
        beyond = text + 2 * count[first + STRING]
        out = piece_low[start] == text and piece_high[end - 1] == beyond
        union = True
        for piece in range(start, end):
            run = -1
            while run + 1 < kinds and base[first + run + 1] <= piece_low[piece]:
                run += 1
            if run < 0 or piece_high[piece] > base[first + run] + 2 * count[first + run]:
                union = False
            elif run == STRING:
                union &= piece_low[piece] == piece_high[piece] and (piece_low[piece] - text) & 1 == 1
            if piece > start:
                out &= piece_low[piece] == piece_high[piece - 1] + 2 and (piece_low[piece] - text) & 1 == 0
        if union:
            size[test] = end - start
        elif out:
            form[test], size[test] = POINTS_OUT, end - start - 1
        else:
            form[test] = OPAQUE


@compiled
def list_records(tests, pieces, form, starts, records, out_form):
    """The records of every test, from starts[test] on."""
    column, low, high = tests
    numbers, piece_offsets, piece_low, piece_high = pieces
    out_column, out_low, out_high = records
    for test in range(len(column)):
        start = starts[test]
        if numbers[test] < 0 or form[test] == OPAQUE:
            out_column[start], out_low[start], out_high[start], out_form[start] = column[test], low[test], high[test], 0
            continue
        first = piece_offsets[numbers[test]]
        for number in range(starts[test + 1] - start):
            place = start + number
            out_column[place] = column[test]
            if form[test] == POINTS_OUT:
                out_low[place] = out_high[place] = piece_high[first + number] + 1
                out_form[place] = EXCLUDED | (CONTINUED if number else 0)
            else:
                out_low[place], out_high[place] = piece_low[first + number], piece_high[first + number]
                out_form[place] = CONTINUED if number else 0
