"""Builds bitmaps over the clauses of a block: for each column and bucket of codes, the clauses that a value of the bucket may satisfy.

Every bound toggles one bit (DEXIN's boundaries, GEM's cached bit sets): two toggles per clause and column, then a running XOR over the
buckets gives every bucket's bit set. A second, smaller set of bitmaps has one bit per word of 64 clauses, for whole groups.
"""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.dense.clustering import LINE, WORD

__all__ = ["buckets_of_codes", "build_bitmaps", "build_outer", "build_rows"]

TILE = 2048
ONE, ZERO = np.uint64(1), np.uint64(0)


@compiled
def buckets_of_codes(buckets):
    """Code 0 … 255 → bucket, monotone; bucket 0 is absence alone."""
    found = np.zeros(256, np.int64)
    for code in range(1, 256):
        found[code] = min(buckets - 1, 1 + ((code - 1) * (buckets - 1)) // 254)
    return found


@compiled
def build_bitmaps(codes, columns, bucket, bitmaps):
    """In tiles of one cache line of clauses (4 KB), so that toggles stay in L1 and memory is written in whole lines."""
    count = codes.shape[0]
    buckets = bitmaps.shape[1]
    tile = np.empty((buckets + 1, 8), np.uint64)
    for start in range(0, count, LINE):
        for column in range(columns):
            tile[:] = ZERO
            for clause in range(start, min(count, start + LINE)):
                place = clause - start
                bit = ONE << np.uint64(place & 63)
                tile[bucket[codes[clause, column]], place >> 6] ^= bit
                tile[bucket[codes[clause, columns + column]] + 1, place >> 6] ^= bit
            word = start >> 6
            for number in range(buckets):
                for part in range(8):
                    if number:
                        tile[number, part] ^= tile[number - 1, part]
                    bitmaps[column, number, word + part] = tile[number, part]


@compiled
def build_outer(codes, columns, group, outer, passed, live):
    """Per word the hull of its clauses. `passed` and `live` collect, as differences over the buckets, how many clauses a value passes and
    how many stand in live words: their ratio orders the columns at match time."""
    count = codes.shape[0]
    groups = outer.shape[1]
    words = (count + WORD - 1) // WORD
    least = np.full((words, columns), 255, np.uint8)
    most = np.zeros((words, columns), np.uint8)
    for clause in range(count):
        word = clause >> 6
        for column in range(columns):
            least[word, column] = min(least[word, column], codes[clause, column])
            most[word, column] = max(most[word, column], codes[clause, columns + column])
        if clause & 7 == 0:
            for column in range(columns):
                passed[column, group[codes[clause, column]]] += 8
                passed[column, group[codes[clause, columns + column]] + 1] -= 8
    parts = outer.shape[2]
    tile = np.empty((groups + 1, parts), np.uint64)
    for column in range(columns):
        tile[:] = ZERO
        for word in range(words):
            first, behind = group[least[word, column]], group[most[word, column]] + 1
            bit = ONE << np.uint64(word & 63)
            tile[first, word >> 6] ^= bit
            tile[behind, word >> 6] ^= bit
            live[column, first] += WORD
            live[column, behind] -= WORD
        for number in range(groups):
            for part in range(parts):
                if number:
                    tile[number, part] ^= tile[number - 1, part]
                outer[column, number, part] = tile[number, part]


@compiled
def build_rows(codes, order, carried, low, high, least, rows, exact):
    """rows[clause] = low codes, 255 - high codes, …, what the clause carries in the last four bytes; exact[clause] = lows, highs, less the
    least bound of their code, 0 where they are free."""
    columns = low.shape[0]
    count, stride = rows.shape
    for start in range(0, count, TILE):
        end = min(count, start + TILE)
        for clause in range(start, end):
            for column in range(columns):
                rows[clause, column] = codes[clause, column]
                rows[clause, columns + column] = 255 - codes[clause, columns + column]
            number = carried[order[clause]]
            for byte in range(4):
                rows[clause, stride - 4 + byte] = (number >> (8 * byte)) & 255
        for column in range(columns):
            for clause in range(start, end):
                place = order[clause]
                low_code, high_code = codes[clause, column], codes[clause, columns + column]
                low_rest = max(0, np.int64(low[column, place]) - least[column, low_code])
                high_rest = np.int64(high[column, place]) - least[column, high_code]
                exact[clause, column] = low_rest if low_code != 0 else 0
                exact[clause, columns + column] = high_rest if high_code != 255 else 0
