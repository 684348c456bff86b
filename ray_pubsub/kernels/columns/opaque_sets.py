"""Selects, compares and concatenates sets that records cannot express, in columns (columns/opaque/opaque_sets.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.compiled import compiled

__all__ = [
    "ESCAPE_SHIFT",
    "NEGATED_PATTERN",
    "REGEXP_PATTERN",
    "TEXT_SHIFT",
    "distinct_sets",
    "gather_runs",
    "sort_runs",
    "take_records",
]

NEGATED_PATTERN, REGEXP_PATTERN, ESCAPE_SHIFT, TEXT_SHIFT = 1, 2, 2, 24
"""A pattern is one number: from TEXT_SHIFT on the number of its text, below it its escape's code point plus one (0: none), two flags."""
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)

Longs = NDArray[np.int64]


@compiled
def gather_runs(offsets, chosen):
    """Returns which elements the runs offsets[c]:offsets[c + 1] of the chosen ones have, and where each run begins now."""
    starts = np.zeros(len(chosen) + 1, np.int64)
    for place in range(len(chosen)):
        starts[place + 1] = starts[place] + offsets[chosen[place] + 1] - offsets[chosen[place]]
    places = np.empty(starts[-1], np.int64)
    for place in range(len(chosen)):
        first = offsets[chosen[place]]
        for at in range(starts[place], starts[place + 1]):
            places[at] = first + at - starts[place]
    return places, starts


@compiled
def sort_runs(offsets, values):
    """Sorts the values of each run, in place. Mostly they are few, or in order."""
    for run in range(len(offsets) - 1):
        first, last = offsets[run], offsets[run + 1]
        gap = 1
        while gap < (last - first) // 3:
            gap = 3 * gap + 1
        while gap > 0:
            for place in range(first + gap, last):
                value, free = values[place], place
                while free >= first + gap and values[free - gap] > value:
                    values[free] = values[free - gap]
                    free -= gap
                values[free] = value
            gap //= 3


def take_records(records: NDArray[Any], places: NDArray[np.int64]) -> NDArray[Any]:
    """Returns the records at these places. numpy takes records of several fields by way of one Python object each, but allocates in large
    pages."""
    found = np.empty(len(places), records.dtype)
    copy_records(records, places, found)
    return found


@compiled
def copy_records(records, places, found):
    for place in range(len(places)):
        found[place] = records[places[place]]


def distinct_sets(
    attributes: NDArray[np.int32], piece_offsets: Longs, pieces: Longs, pattern_offsets: Longs, patterns: Longs
) -> tuple[Longs, Longs]:
    """which[i] = the place of set i among the distinct ones; first[place] = which set is the first of those. `pieces`: a row of words for
    each."""
    bits = max(4, int(2 * len(attributes) - 1).bit_length())
    which, first = np.empty(len(attributes), np.int64), np.empty(len(attributes), np.int64)
    table = np.full(1 << bits, -1, np.int32)
    found = find_sets(attributes, piece_offsets, pieces, pattern_offsets, patterns, table, which, first)
    return which, first[:found].copy()


@compiled
def find_sets(attributes, piece_offsets, pieces, pattern_offsets, patterns, table, which, first):
    """Fills `which` and `first`; `table` has room for twice as many. Returns how many distinct sets there are."""
    mask = np.uint64(len(table) - 1)
    words = pieces.shape[1]
    found = 0
    for number in range(len(attributes)):
        hashed = np.uint64(attributes[number]) * MULTIPLIER
        begin, end = piece_offsets[number], piece_offsets[number + 1]
        for piece in range(begin, end):
            for word in range(words):
                hashed = (hashed ^ (hashed >> np.uint64(29)) ^ np.uint64(pieces[piece, word])) * MULTIPLIER
        start, stop = pattern_offsets[number], pattern_offsets[number + 1]
        for pattern in range(start, stop):
            hashed = (hashed ^ (hashed >> np.uint64(29)) ^ np.uint64(patterns[pattern])) * MULTIPLIER
        slot = (hashed ^ (hashed >> np.uint64(32))) & mask
        while True:
            other = table[slot]
            if other < 0:
                table[slot] = found
                first[found] = number
                which[number] = found
                found += 1
                break
            known = first[other]
            same = attributes[known] == attributes[number]
            same = same and piece_offsets[known + 1] - piece_offsets[known] == end - begin
            same = same and pattern_offsets[known + 1] - pattern_offsets[known] == stop - start
            if same:
                for piece in range(end - begin):
                    for word in range(words):
                        same = same and pieces[piece_offsets[known] + piece, word] == pieces[begin + piece, word]
                for pattern in range(stop - start):
                    same = same and patterns[pattern_offsets[known] + pattern] == patterns[start + pattern]
            if same:
                which[number] = other
                break
            slot = (slot + np.uint64(1)) & mask
    return found
