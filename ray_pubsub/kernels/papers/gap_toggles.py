"""The gaps of tests of several intervals (`!=`, `not in`, `not between`, `in`), as boundaries that toggle a bit.

DEXIN section 3.2 indexes `!=` as two intervals. A clause cannot lie twice in lists that remove what begins after a value or ends before
it, so here the papers' lists hold hulls, and the gaps between the intervals are kept beside them: per block and column the two ends of
every gap, sorted. Going up, a clause's bit turns on where a gap of it begins and off where the gap ends; a bit that is on says that the
code lies in a gap. The bit set is cached at regular distances, and a code's bit set is the nearest cache with one flip per boundary
in between (GEM section II.G). If a clause tests a column twice, flips may cancel out: then it is not excluded here, but compared at the
end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.compiled import compiled

__all__ = ["LEAST_STRIDE", "GapToggles", "SourceTests", "count_toggles", "exclude_gaps", "lay_toggles"]

LEAST_STRIDE = 64
WORD = 64
ZERO, ONE = np.uint64(0), np.uint64(1)


class SourceTests(NamedTuple):
    """Clauses in the order of an engine's blocks, and their tests (columns/coding.py, CodedTests)."""

    order: Any
    offsets: Any
    column: Any
    pieces: Any
    piece_offsets: Any
    piece_low: Any
    piece_high: Any


class GapToggles(NamedTuple):
    """List block * len(columns) + i, of column columns[i], has the boundaries starts[list] … starts[list + 1] - 1, by ascending code. Its
    cache k, from bits[words[list] + k * (words of a block)] on, is the state before boundary k * stride."""

    columns: Any
    starts: Any
    codes: Any
    ids: Any
    words: Any
    bits: Any
    stride: Any
    block: Any


@compiled
def count_toggles(tests, place, block, starts):
    """Per list how many boundaries it has, to starts[list + 1]. `place`: column → its place among the columns with gaps, or -1."""
    columns = 0
    for column in range(len(place)):
        columns += place[column] >= 0
    for number in range(len(tests.order)):
        clause = tests.order[number]
        for test in range(tests.offsets[clause], tests.offsets[clause + 1]):
            piece = tests.pieces[test]
            if piece >= 0:
                gaps = tests.piece_offsets[piece + 1] - tests.piece_offsets[piece] - 1
                starts[number // block * columns + place[tests.column[test]] + 1] += 2 * gaps


@compiled
def lay_toggles(tests, place, size, toggles):
    """Writes the boundaries, sorts them, and fills the caches. `size`: clauses of a full block."""
    starts, codes, ids = toggles.starts, toggles.codes, toggles.ids
    columns = len(toggles.columns)
    behind = starts[:-1].copy()
    for number in range(len(tests.order)):
        clause = tests.order[number]
        for test in range(tests.offsets[clause], tests.offsets[clause + 1]):
            piece = tests.pieces[test]
            if piece >= 0:
                target = number // toggles.block * columns + place[tests.column[test]]
                for interval in range(tests.piece_offsets[piece], tests.piece_offsets[piece + 1] - 1):
                    codes[behind[target]] = tests.piece_high[interval] + 1
                    codes[behind[target] + 1] = tests.piece_low[interval + 1]
                    ids[behind[target]] = ids[behind[target] + 1] = number % toggles.block
                    behind[target] += 2
    state = np.empty((size + WORD - 1) // WORD, np.uint64)
    for number in range(len(starts) - 1):
        first, last = starts[number], starts[number + 1]
        order = np.argsort(codes[first:last], kind="mergesort")
        codes[first:last] = codes[first:last][order]
        ids[first:last] = ids[first:last][order]
        state[:] = ZERO
        target = toggles.words[number]
        for boundary in range(first, last):
            if (boundary - first) % toggles.stride == 0:
                for word in range(len(state)):
                    toggles.bits[target + word] = state[word]
                target += len(state)
            state[ids[boundary] >> 6] ^= ONE << np.uint64(ids[boundary] & 63)


@compiled
def exclude_gaps(toggles, codes, block, words, spare, alive):
    """Takes the clauses of a block whose gaps have the event's codes from `alive`. Returns how many columns were asked."""
    columns, size = len(toggles.columns), (toggles.block + WORD - 1) // WORD
    asked = 0
    for place in range(columns):
        number = block * columns + place
        first, last = toggles.starts[number], toggles.starts[number + 1]
        code = codes[toggles.columns[place]]
        if first == last or code == 0:
            continue
        asked += 1
        low, high = first, last  # the first boundary above the code
        while low < high:
            middle = (low + high) >> 1
            if toggles.codes[middle] <= code:
                low = middle + 1
            else:
                high = middle
        cache = min((low - first + toggles.stride // 2) // toggles.stride, (last - first - 1) // toggles.stride)
        cached, bits_at = first + cache * toggles.stride, toggles.words[number] + cache * size
        for word in range(words):
            spare[word] = toggles.bits[bits_at + word]
        for clause in toggles.ids[min(low, cached) : max(low, cached)]:
            spare[clause >> 6] ^= ONE << np.uint64(clause & 63)
        for word in range(words):
            alive[word] &= ~spare[word]
    return asked
