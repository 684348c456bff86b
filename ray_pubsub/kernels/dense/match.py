"""One event against dense clauses: clustered bucket bitmaps (kernels/dense/clustering.py, kernels/dense/bitmaps.py).

    1. Outer bitmaps, ANDed over the columns, leave the words of 64 clauses that may hold a match.
    2. Lines of 512 bits with a live word are ANDed, the most selective columns first and a few columns at a time, so that a line stays in
       registers; empty lines leave the list.
    3. Bits left, somewhat more than the matches, are settled by the clauses' bytes (kernels/dense/check.py).

This is DEXIN's inclusive method after GEM's cached bit sets, with buckets for caches, so that no boundary is ever replayed. The arrays are
given by their addresses (`ClauseBytes`), and the caller keeps them alive.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.dense.check import ClauseBytes, DenseScratch, check_candidates
from ray_pubsub.kernels.dense.clustering import EDGES, FREE_LOW, WORD
from ray_pubsub.kernels.intrinsics import count_ones, line_and, line_and_all, line_fill, prefetch_address

__all__ = ["BlockTables", "columns_worth", "match_dense", "match_dense_event"]

ZERO, BYTE = np.uint64(0), np.uint64(255)
AHEAD = 8  # lines whose columns are asked for ahead
AT_ONCE = 4  # columns per pass over the lines
VERIFY_COST = 2.0  # of one candidate, in ANDs of a line
SPARE = 4096  # places for what comes after the largest segment, so that its matches are not copied once more


class BlockTables(NamedTuple):
    """By which a block codes an event's values."""

    edges: Any
    """[column]: the least bound of each code but the first."""
    least: Any
    """[column, code]: the least bound that has the code; see `ClauseBytes.exact`."""
    bucket: Any
    """Code → bucket of the bitmaps."""
    group: Any
    """Code → group of the outer bitmaps."""
    rate: Any
    """[column, group]: the share of the clauses in live words that such a value passes."""


class CodedEvent(NamedTuple):
    code: Any
    """By column."""
    outer_at: Any
    """By column, where its outer bitmap begins."""
    bitmap_at: Any
    """In the order of the shares, where the column's bitmap begins."""
    share: Any
    """What the columns let pass, ascending."""
    rest: Any
    """By lane: what the value has above the least of its code, negative in high lanes."""


@compiled
def _code_event(event, tables, clauses, coded):
    """Finds the codes of an event's values and the bitmaps that they lead to, into the arrays of `coded`."""
    edges, least, bucket, group, rate = tables
    code, outer_at, bitmap_at, share, rest = coded
    bitmap_bytes, outer_bytes = clauses.bitmap_bytes, clauses.outer_bytes
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
    """Returns how many of the columns to AND, so that ANDs and the checks of what is left together cost least."""
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
def match_dense_event(event, tables, clauses, scratch, out, filled):
    """What the clauses that match the event (a code per column, FREE_LOW where it has none) carry, from out[filled] on. Returns `out`,
    which may have had to grow, and the new fill."""
    columns = tables.edges.shape[0]
    coded = CodedEvent(
        np.empty(columns, np.int64), np.empty(columns, np.int64), np.empty(columns, np.int64),
        np.empty(columns, np.float64), np.empty(2 * columns, np.int64),
    )  # fmt: skip
    _code_event(event, tables, clauses, coded)
    live, lines = scratch.live, scratch.lines
    count, words = _live_lines(clauses.outer, coded.outer_at, clauses.outer_bytes, live, lines)
    if count:
        worth = columns_worth(words, count, coded.share)
        count, candidates = _and_lines(clauses.bitmaps, coded.bitmap_at, worth, live, lines, count, scratch.bits)
        if filled + candidates >= len(out):  # one more: what is written before it is known to match
            grown = np.empty(max(filled + candidates + 1 + SPARE, 2 * filled), np.int64)
            grown[:filled] = out[:filled]
            out = grown
        filled = check_candidates(coded.code, coded.rest, clauses, count, scratch, out, filled)
    return out, filled


@compiled
def match_dense(cells, tables, clauses, scratch, out_offsets):
    """What the clauses that match carry (kernels/dense/bitmaps.py, build_rows), event by event; their `out_offsets` come zeroed. Structs
    come as plain tuples (kernels/pivot/pivot_lists.py); `cells`: offsets, columns, codes."""
    offsets, column, code = cells
    tables, clauses, scratch = BlockTables(*tables), ClauseBytes(*clauses), DenseScratch(*scratch)
    columns = tables.edges.shape[0]
    event = np.empty(columns, np.int32)
    out = np.empty(0, np.int64)
    filled = 0
    for number in range(len(offsets) - 1):
        event[:] = FREE_LOW
        for cell in range(offsets[number], offsets[number + 1]):
            event[column[cell]] = code[cell]
        out, filled = match_dense_event(event, tables, clauses, scratch, out, filled)
        out_offsets[number + 1] = filled
    return out[:filled]
