"""Selects, compares and concatenates sets that records cannot express, in columns (columns/opaque/opaque_sets.py)."""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled

__all__ = [
    "ESCAPE_SHIFT",
    "NEGATED_PATTERN",
    "REGEXP_PATTERN",
    "TEXT_SHIFT",
    "distinct_sets",
    "gather_runs",
    "take_records",
]

NEGATED_PATTERN, REGEXP_PATTERN, ESCAPE_SHIFT, TEXT_SHIFT = 1, 2, 2, 24
"""A pattern is one number: from TEXT_SHIFT on the number of its text, below it its escape's code point plus one (0: none), two flags."""
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


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
def take_records(records, places):
    """The records at these places. numpy takes records of several fields by way of one Python object each."""
    found = np.empty(len(places), records.dtype)
    for place in range(len(places)):
        found[place] = records[places[place]]
    return found


@compiled
def distinct_sets(attributes, piece_offsets, pieces, pattern_offsets, patterns):
    """which[i] = the place of set i among the distinct ones; first[place] = which set is the first of those. `pieces`: a row of words for
    each."""
    bits = 4
    while (1 << bits) < 2 * len(attributes):
        bits += 1
    table = np.full(1 << bits, -1, np.int64)
    mask = np.uint64((1 << bits) - 1)
    which = np.empty(len(attributes), np.int64)
    first = np.empty(len(attributes), np.int64)
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
    return which, first[:found].copy()
