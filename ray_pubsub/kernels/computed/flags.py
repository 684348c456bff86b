"""Sorts flags, drops repeated ones, and finds the clauses that test one. A flag is given as a row and the number of a computed attribute
that is true of it."""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled

__all__ = ["clauses_of_flags", "distinct_flags", "flags_by_row"]


@compiled
def distinct_flags(rows, numbers):
    """Returns which pairs come for the first time. Equal rows are neighbours; the flags of a row are compared pair by pair, or sorted if
    they are many."""
    keep = np.ones(len(rows), np.bool_)
    start = 0
    while start < len(rows):
        end = start + 1
        ascending = True
        while end < len(rows) and rows[end] == rows[start]:
            ascending &= numbers[end] > numbers[end - 1]
            end += 1
        if not ascending:
            if end - start <= 16:
                for place in range(start + 1, end):
                    for other in range(start, place):
                        keep[place] &= numbers[other] != numbers[place]
            else:
                order = np.argsort(numbers[start:end], kind="mergesort")
                for place in range(1, end - start):
                    same = numbers[start + order[place]] == numbers[start + order[place - 1]]
                    keep[start + order[place]] = not same
        start = end
    return keep


@compiled
def flags_by_row(rows, numbers, size):
    """Flags in the order of their rows: counting sort."""
    offsets = np.zeros(size + 1, np.int64)
    for flag in range(len(rows)):
        offsets[rows[flag] + 1] += 1
    for row in range(size):
        offsets[row + 1] += offsets[row]
    row_out, number_out = np.empty(len(rows), np.int32), np.empty(len(rows), np.int32)
    for flag in range(len(rows)):
        place = offsets[rows[flag]]
        offsets[rows[flag]] = place + 1
        row_out[place], number_out[place] = rows[flag], numbers[flag]
    return row_out, number_out


@compiled
def clauses_of_flags(rows, places, starts, owners, offsets):
    """The owners of clauses that test one flag each: those of place i are owners[starts[i]:starts[i + 1]]. `places[i]` is the position of
    flag i in `starts`; a flag outside of it is tested by no clause. Fills `offsets` (zero, one per row and one more) and returns the
    owners; flags come by row."""
    flags = len(starts) - 1
    total = 0
    for flag in range(len(rows)):
        place = places[flag]
        if 0 <= place < flags:
            count = starts[place + 1] - starts[place]
            total += count
            offsets[rows[flag] + 1] += count
    for row in range(len(offsets) - 1):
        offsets[row + 1] += offsets[row]
    found = np.empty(total, np.int64)
    filled = 0
    for flag in range(len(rows)):
        place = places[flag]
        if 0 <= place < flags:
            for entry in range(starts[place], starts[place + 1]):
                found[filled] = owners[entry]
                filled += 1
    return found
