"""The inner loops of the matching kernels in isolation, for engines/selection/calibration.py to measure.

Every probe returns a number that depends on its work, so that the compiler cannot remove any of it.
"""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.intrinsics import prefetch

__all__ = ["probe_checks", "probe_counts", "probe_entries", "probe_marks", "probe_visits", "probe_words"]

ONE = np.uint64(1)
AHEAD = 8


@compiled
def probe_words(sets, alive, spare):
    """Bit sets ANDed one after the other: sets[i, word]."""
    for number in range(sets.shape[0]):
        for word in range(len(alive)):
            spare[word] = alive[word] & sets[number, word]
        alive, spare = spare, alive
    return alive[0]


@compiled
def probe_marks(ids, bits):
    """Bits marked at random, as lists of clauses say."""
    for clause in ids:
        bits[clause >> 6] |= ONE << np.uint64(clause & 63)
    return bits[0]


@compiled
def probe_entries(check, presence, out):
    """A run of a pivot list: each entry names a column that must be there."""
    found = 0
    for place in range(len(check) // 2):
        out[found] = place
        found += presence[check[2 * place]]
    return found


@compiled
def probe_checks(candidates, rows, codes, out):
    """Clauses at random places whose tests (column, low, high) are compared until one fails."""
    filled = 0
    width = rows.shape[1]
    for place in range(len(candidates)):
        prefetch(rows, np.int64(candidates[min(place + AHEAD, len(candidates) - 1)]) * width)
        clause = candidates[place]
        holds = True
        for test in range(0, width, 3):
            code = codes[rows[clause, test]]
            if code < rows[clause, test + 1] or code > rows[clause, test + 2]:
                holds = False
                break
        out[filled] = clause
        filled += holds
    return filled


@compiled
def probe_visits(following, start, steps):
    """Places in cold memory, each known only when the one before has been read."""
    place = start
    for _ in range(steps):
        place = following[place]
    return place


@compiled
def probe_counts(targets, counters, out):
    """Counters of clauses at random places counted down; those that reach zero are matches."""
    found = 0
    for target in targets:
        counters[target] -= np.uint8(1)
        out[found] = target
        found += counters[target] == 0
    return found
