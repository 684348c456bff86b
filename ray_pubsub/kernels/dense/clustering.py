"""Clauses put in an order in which neighbours are alike, so that whole groups of them can be passed over.

Bounds are coded in 8 bits: per column 253 quantile edges, code(x) = 1 + the number of edges <= x, which is monotone; 0 is "no low bound"
(and an absent value), 255 "no high bound". Clauses are then split recursively, at a multiple of a cache line of bits (512 clauses) and
below that of a word (64), on whichever low or high code shrinks the expected share of live groups most per bit spent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.compiled import compiled

__all__ = [
    "EDGES",
    "FREE_HIGH",
    "FREE_LOW",
    "LINE",
    "WORD",
    "cluster",
    "code_bounds",
    "largest_rest",
    "least_of_codes",
    "quantile_edges",
]

LINE, WORD = 512, 64
EDGES = 253
FREE_LOW, FREE_HIGH = np.int32(-(2**31)), np.int32(2**31 - 1)
SLOTS = 4096
BINS = 32


def quantile_edges(low: NDArray[np.int32], high: NDArray[np.int32], step: int) -> NDArray[np.int32]:
    """Per column the quantiles of every `step`-th clause's bounds. Sorted by numpy: by numba it was a third of building a small block."""
    lows, highs = low[:, ::step], high[:, ::step]
    values = np.concatenate([np.where(lows > FREE_LOW + 1, lows, FREE_HIGH), highs], axis=1)
    values.sort(axis=1)
    found = np.count_nonzero(values != FREE_HIGH, axis=1)
    places = found[:, None] * np.arange(1, EDGES + 1) // (EDGES + 1)
    return np.where(found[:, None] > 0, np.take_along_axis(values, places, axis=1), 0).astype(np.int32)


def least_of_codes(edges: NDArray[np.int32]) -> NDArray[np.int32]:
    """int32[column, code]: the least bound that has the code. "Present, no low bound" and "absent" (as a high bound) count as 0."""
    least = np.zeros((len(edges), 256), np.int32)
    least[:, 2 : EDGES + 2] = edges
    return least


def largest_rest(edges: NDArray[np.int32], top: NDArray[np.int32]) -> int:
    """The most by which a bound can exceed the least of its code; `top`: the largest bound by column."""
    ends = np.column_stack([edges.astype(np.int64), np.maximum(top, edges[:, -1]) + 1])
    return int(np.diff(ends, axis=1, prepend=0).max(initial=1)) - 1


@compiled
def code_bounds(low, high, edges, codes):
    """codes[clause] = low codes of all columns, then high codes. A table of 4,096 slots per column brackets each search."""
    columns, count = low.shape
    table = np.empty((columns, SLOTS + 2), np.int64)
    first = np.empty(columns, np.int64)
    shift = np.empty(columns, np.int64)
    for column in range(columns):
        first[column] = edges[column, 0]
        span = np.int64(edges[column, EDGES - 1]) - first[column]
        bits = 0
        while (span >> bits) >= SLOTS:
            bits += 1
        shift[column] = bits
        edge = 0
        for slot in range(SLOTS + 1):
            while edge < EDGES and edges[column, edge] <= first[column] + (np.int64(slot) << bits):
                edge += 1
            table[column, slot] = edge  # edges up to the slot's start
        table[column, SLOTS + 1] = EDGES
    for start in range(0, count, 2048):
        for column in range(columns):
            for side in range(2):
                bounds = low[column] if side == 0 else high[column]
                target = column + side * columns
                for clause in range(start, min(count, start + 2048)):
                    # Selects, not branches: which bounds are free is unpredictable.
                    bound = bounds[clause]
                    distance = np.int64(bound) - first[column]
                    slot = min(max(distance, 0) >> shift[column], SLOTS)
                    below, above = table[column, slot], table[column, slot + 1]
                    if above - below <= 1:
                        below += (edges[column, min(below, EDGES - 1)] <= bound) & (below < above)
                    else:
                        while below < above:  # many edges crowd into one slot
                            middle = (below + above) >> 1
                            if edges[column, middle] <= bound:
                                below = middle + 1
                            else:
                                above = middle
                    code = 1 + below * (distance >= 0)
                    code = 0 if bound == FREE_LOW else code
                    codes[clause, target] = 255 if bound == FREE_HIGH else code


@compiled
def _choose_split(codes, start, end, columns, sample, counts, least, most):
    """The code to split on, and whether to split off the free ones first, judged on a sample in 32 bins: the split at the median (of the
    bounded) with the largest drop of log2(expected live share) per bit of entropy."""
    step = max(1, (end - start) // sample)
    best = 1e9
    chosen = 0
    split_free = False
    for column in range(columns):
        for side in range(2):
            place = column + side * columns
            for code in range(BINS):
                counts[code] = 0
                least[code] = 255
                most[code] = 0
            total = 0
            free = 0
            lowest = 255
            highest = 0
            for clause in range(start, end, step):
                code = codes[clause, place]
                low, high = codes[clause, column], codes[clause, columns + column]
                total += 1
                lowest, highest = min(lowest, low), max(highest, high)
                if (side == 0 and code == 0) or (side == 1 and code == 255):
                    free += 1
                else:
                    code >>= 3
                    counts[code] += 1
                    least[code], most[code] = min(least[code], low), max(most[code], high)
            bounded = total - free
            if bounded * 16 < total:
                continue
            seen = 0
            left_low, left_high, left = 255, 0, 0
            right_low, right_high, right = 255, 0, 0
            for code in range(BINS):
                if counts[code] == 0:
                    continue
                if (seen + counts[code] // 2) * 2 <= bounded:
                    left_low, left_high = min(left_low, least[code]), max(left_high, most[code])
                    left += counts[code]
                else:
                    right_low, right_high = min(right_low, least[code]), max(right_high, most[code])
                    right += counts[code]
                seen += counts[code]
            width = float(highest - lowest + 1)
            share = 0.0
            bits = 0.0
            if free:
                part = free / total
                share += part
                bits -= part * np.log2(part)
            if left:
                part = left / total
                share += part * (left_high - left_low + 1) / width
                bits -= part * np.log2(part)
            if right:
                part = right / total
                share += part * (right_high - right_low + 1) / width
                bits -= part * np.log2(part)
            if bits < 0.2:
                continue
            score = np.log2(share) / bits
            if score < best:
                best = score
                chosen = place
                split_free = free * 16 > total
    return chosen, split_free


@compiled
def cluster(codes, words, order, columns, sample):
    """Reorders the rows (`codes` is the byte view of `words`) and `order` with them. A split is a counting sort on one code."""
    count, width = words.shape
    spare = np.empty_like(words)
    spare_order = np.empty_like(order)
    stack = np.empty((4096, 2), np.int64)
    stack[0, 0] = 0
    stack[0, 1] = count
    top = 1
    place = np.empty(257, np.int64)
    counts = np.empty(BINS, np.int64)
    least = np.empty(BINS, np.int64)
    most = np.empty(BINS, np.int64)
    while top:
        top -= 1
        start, end = stack[top, 0], stack[top, 1]
        if end - start <= WORD:
            continue
        chosen, split_free = _choose_split(codes, start, end, columns, sample, counts, least, most)
        place[:] = 0
        for row in range(start, end):
            place[codes[row, chosen] + 1] += 1
        for code in range(256):
            place[code + 1] += place[code]
        cut = (end - start) // 2
        if split_free:
            cut = place[1] if chosen < columns else place[255]
        unit = LINE if end - start > LINE else WORD
        cut = max(unit, (cut + unit // 2) // unit * unit)
        if cut >= end - start:
            cut = (end - start - 1) // unit * unit
        for row in range(start, end):
            code = codes[row, chosen]
            target = start + place[code]
            place[code] += 1
            spare_order[target] = order[row]
            for word in range(width):
                spare[target, word] = words[row, word]
        for row in range(start, end):
            order[row] = spare_order[row]
            for word in range(width):
                words[row, word] = spare[row, word]
        stack[top, 0] = start + cut
        stack[top, 1] = end
        stack[top + 1, 0] = start
        stack[top + 1, 1] = start + cut
        top += 2
