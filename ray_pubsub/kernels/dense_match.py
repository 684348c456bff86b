"""One event against dense clauses: clustered bucket bitmaps (kernels/clustering.py, kernels/bitmaps.py).

    1. Outer bitmaps, ANDed over the columns, leave the words of 64 clauses that may hold a match.
    2. Lines of 512 bits with a live word are ANDed, the most selective columns first and a few columns at a time, so that a line stays in
       registers; empty lines leave the list.
    3. Bits left, somewhat more than the matches, are settled by the clauses' bytes (kernels/dense_check.py).

This is DEXIN's inclusive method after GEM's cached bit sets, with buckets for caches, so that no boundary is ever replayed. The arrays are
given by their addresses (`ClauseBytes`), and whoever calls keeps them alive.
"""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.clustering import EDGES, FREE_LOW, WORD
from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.dense_check import check_candidates
from ray_pubsub.kernels.intrinsics import count_ones, line_and, line_and_all, line_fill, prefetch_address

__all__ = ["columns_worth", "match_dense", "match_dense_event"]

ZERO, BYTE = np.uint64(0), np.uint64(255)
AHEAD = 8  # lines whose columns are asked for ahead
AT_ONCE = 4  # columns per pass over the lines
VERIFY_COST = 2.0  # of one candidate, in ANDs of a line
SPARE = 4096  # places for what comes after the largest segment, so that its matches are not copied once more


@compiled
def _code_event(
    event, edges, least, bucket, group, rate, bitmap_bytes, outer_bytes, code, outer_at, bitmap_at, share, rest,
):  # fmt: skip
    """Codes of the event, what it has above the least of its code (`rest`, negative in high lanes), and the columns in the order of the
    share they let pass."""
    columns, groups = rate.shape
    buckets = bucket[255] + 1
    # No branch depends on a value, so that the searches of all columns wait for memory together: in a small block that is most of the time.
    for column in range(columns):
        value = event[column]
        below = np.int64(0)
        for step in (128, 64, 32, 16, 8, 4, 2, 1):
            probe = below + step
            within = (probe <= EDGES) & (edges[column, min(probe, EDGES) - 1] <= value)
            below += step * np.int64(within)
        code[column] = (below + 1) * np.int64(value != FREE_LOW)
    for column in range(columns):
        value = event[column]
        below = code[column]
        rest[column] = np.int64(value) - least[column, below]
        rest[columns + column] = -rest[column]
        outer_at[column] = (column * groups + group[below]) * outer_bytes
        passing = rate[column, group[below]]
        place = column
        while place > 0 and share[place - 1] > passing:
            share[place] = share[place - 1]
            bitmap_at[place] = bitmap_at[place - 1]
            place -= 1
        share[place] = passing
        bitmap_at[place] = (column * buckets + bucket[below]) * bitmap_bytes


@compiled
def _live_lines(outer, outer_at, outer_bytes, live, lines):
    """Numbers of the lines with a live word to `lines`; `live` has a bit per word. Returns how many lines and words live."""
    live_at = live.ctypes.data
    for line in range(0, outer_bytes, 64):
        line_and(live_at + line, outer + outer_at[0] + line, outer + outer_at[len(outer_at) - 1] + line)
    for column in range(1, len(outer_at) - 1):
        for line in range(0, outer_bytes, 64):
            line_and(live_at + line, live_at + line, outer + outer_at[column] + line)
    count = 0
    words = 0
    for eight in range(outer_bytes >> 3):
        bits = live[eight]
        words += np.int64(count_ones(bits))
        for line in range(8):
            lines[count] = eight * 8 + line
            count += (bits & BYTE) != ZERO
            bits >>= np.uint64(8)
    return count, words


@compiled
def columns_worth(words, lines, share):
    """How many of the columns to AND, so that ANDs and the checks of what is left together cost least."""
    left = words * float(WORD)
    least, best = np.inf, 1
    for column in range(len(share)):
        left *= share[column]
        cost = lines * (column + 1.0) + left * VERIFY_COST
        if cost < least:
            least, best = cost, column + 1
    return best


@compiled
def _and_lines(bitmaps, bitmap_at, worth, live, lines, count, bits):
    """ANDs the bitmaps over the live lines; bits[line] for lines[line] is what is left. Returns how many lines and bits."""
    live_bytes = live.view(np.uint8)
    bits_at = bits.ctypes.data
    fill_at = bits_at + (len(bits) - 8) * 8  # a spare line
    offsets_at = bitmap_at.ctypes.data
    for first in range(0, worth, AT_ONCE):
        columns = min(AT_ONCE, worth - first)
        for place in range(min(AHEAD, count)):
            for column in range(first, first + columns):
                prefetch_address(bitmaps + np.int64(lines[place]) * 64 + bitmap_at[column])
        kept = 0
        for place in range(count):
            line = np.int64(lines[place])
            ahead = np.int64(lines[min(place + AHEAD, count - 1)])
            source = bits_at + place * 64
            if first == 0:
                line_fill(fill_at, np.uint64(live_bytes[line]))
                source = fill_at
            some = line_and_all(
                bits_at + kept * 64, source, bitmaps + line * 64, bitmaps + ahead * 64, offsets_at + first * 8, columns
            )
            lines[kept] = line
            kept += some != ZERO
        count = kept
    ones = ZERO
    for word in range(count * 8):
        ones += count_ones(bits[word])
    return count, np.int64(ones)


@compiled
def match_dense_event(
    event, edges, least, bucket, group, rate, clauses, live, lines, bits, places, out, filled
):  # fmt: skip
    """What the clauses that match the event (a code per column, FREE_LOW where it has none) carry, from out[filled] on. Returns `out`,
    which may have had to grow, and the new fill."""
    columns = edges.shape[0]
    event_code = np.empty(columns, np.int64)
    outer_at = np.empty(columns, np.int64)
    bitmap_at = np.empty(columns, np.int64)
    share = np.empty(columns, np.float64)
    rest = np.empty(2 * columns, np.int64)
    _code_event(
        event, edges, least, bucket, group, rate, clauses.bitmap_bytes, clauses.outer_bytes,
        event_code, outer_at, bitmap_at, share, rest,
    )  # fmt: skip
    count, words = _live_lines(clauses.outer, outer_at, clauses.outer_bytes, live, lines)
    if count:
        worth = columns_worth(words, count, share)
        count, candidates = _and_lines(clauses.bitmaps, bitmap_at, worth, live, lines, count, bits)
        if filled + candidates >= len(out):  # one more: what is written before it is known to match
            grown = np.empty(max(filled + candidates + 1 + SPARE, 2 * filled), np.int64)
            grown[:filled] = out[:filled]
            out = grown
        filled = check_candidates(event_code, rest, clauses, lines, count, bits, places, out, filled)
    return out, filled


@compiled
def match_dense(
    offsets, column, code, edges, least, bucket, group, rate, clauses, live, lines, bits, places, out_offsets
):
    """What the clauses that match carry (kernels/bitmaps.py, build_rows), event by event; their `out_offsets` come zeroed."""
    columns = edges.shape[0]
    event = np.empty(columns, np.int32)
    out = np.empty(0, np.int64)
    filled = 0
    for number in range(len(offsets) - 1):
        event[:] = FREE_LOW
        for cell in range(offsets[number], offsets[number + 1]):
            event[column[cell]] = code[cell]
        out, filled = match_dense_event(
            event, edges, least, bucket, group, rate, clauses, live, lines, bits, places, out, filled
        )
        out_offsets[number + 1] = filled
    return out[:filled]
