"""Checks the candidates of one event, clause by clause: those that the bitmaps left (kernels/dense/match.py).

A clause's row has a byte per lane (kernels/dense/bitmaps.py, build_rows). A lane holds if the event's byte is larger; if both bytes are
equal, the exact bound of that lane decides. Candidates are checked in tiles, so that scratch stays in the cache. Rows and bounds are
prefetched a fixed number of candidates ahead: if a whole tile is prefetched at once, the processor drops most requests. Nothing branches
on an outcome.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.dense.clustering import LINE, WORD
from ray_pubsub.kernels.intrinsics import (
    bytes_equal,
    bytes_greater,
    count_ones,
    load_int32,
    load_uint16,
    prefetch_address,
)

__all__ = ["ClauseBytes", "DenseScratch", "check_candidates"]

ZERO, ONE = np.uint64(0), np.uint64(1)
NONE, BIT = np.uint32(0), np.uint32(1)
TILE = 2048
AHEAD = 32


class ClauseBytes(NamedTuple):
    """Where a segment's arrays are, and the bytes from one of their rows to the next."""

    bitmaps: Any
    """[column, bucket]: a bit per clause."""
    outer: Any
    """[column, group]: a bit per word of clauses."""
    rows: Any
    """[clause]: bytes of the lanes, and what the clause carries in the last four."""
    exact: Any
    """[clause]: bounds of the lanes, less the least bound of their code: uint16, or int32 if they do not fit."""
    bitmap_bytes: Any
    outer_bytes: Any
    row_bytes: Any
    exact_bytes: Any
    columns: Any


class DenseScratch(NamedTuple):
    """Work space of a match."""

    live: Any
    """A bit per word of clauses."""
    lines: Any
    """Numbers of the lines with a live word."""
    bits: Any
    """What is left of these lines."""
    places: Any
    """The first clause of each word that is left."""


class EventBytes(NamedTuple):
    """The event as the clauses' rows are compared with it."""

    key: Any
    """A byte per lane."""
    used: Any
    """Bits of the lanes there are, 32 to a number,"""
    doubtful: Any
    """and of those in which equal bytes do not decide."""


@compiled
def _words_left(lines, count, bits, places):
    """Words that are not zero to the front of `bits`, the number of their first clause to `places`. Returns how many."""
    words = ZERO
    for line in range(count):
        start = np.int64(lines[line]) * LINE
        for word in range(8):
            left = bits[line * 8 + word]
            bits[words] = left
            places[words] = start + word * WORD
            words += np.uint64(left != ZERO)
    return np.int64(words)


@compiled
def _list_candidates(bits, places, word, words, candidates):
    """Bits to numbers, from `word` on, until a tile is full. Four at a time, wanted or not: where a word's bits end is hard to foresee."""
    found = ZERO
    while found < np.uint64(TILE) and word < words:
        left, start = bits[word], np.int64(places[word])
        at = found
        found += count_ones(left)
        word += 1
        while at < found:
            for step in range(4):
                candidates[at + np.uint64(step)] = start + np.int64(trailing_zeros(left))
                left &= left - ONE
            at += np.uint64(4)
    return np.int64(found), word


@compiled
def _compare_bytes(clauses, event, candidates, count, lanes, out, filled):
    """Sure matches to `out`; to the front of `candidates` those of which no byte is wrong but some are equal, which ones to `lanes`.
    Returns the new fill, and how many they are."""
    used, doubtful = event.used, event.doubtful
    rows, stride, parts = clauses.rows, clauses.row_bytes, np.uint64(len(used))
    key_at = event.key.ctypes.data  # of an argument: an array of one's own may be freed once only its address is in use
    target, unsettled = np.uint64(filled), ZERO
    for place in range(count):
        prefetch_address(rows + candidates[place + AHEAD] * stride)
        candidate = candidates[place]
        row = rows + candidate * stride
        wrong = equal = NONE
        for part in range(len(used)):
            wrong |= bytes_greater(row + part * 32, key_at + part * 32) & used[part]
            also = bytes_equal(row + part * 32, key_at + part * 32) & doubtful[part]
            lanes[unsettled * parts + np.uint64(part)] = also
            equal |= also
        out[target] = load_int32(row + stride - 4)
        candidates[unsettled] = candidate
        target += np.uint64((wrong | equal) == NONE)
        unsettled += np.uint64(wrong == NONE) & np.uint64(equal != NONE)
    return np.int64(target), np.int64(unsettled)


@compiled
def _compare_few_bytes(clauses, event, candidates, count, lanes, out, filled):
    """The same for up to 32 lanes: without the inner loop all counts stay in registers, which halves the time of a row in the cache."""
    rows, stride, key_at = clauses.rows, clauses.row_bytes, event.key.ctypes.data
    used, doubtful = event.used[0], event.doubtful[0]
    target, unsettled = np.uint64(filled), ZERO
    for place in range(count):
        prefetch_address(rows + candidates[place + AHEAD] * stride)
        candidate = candidates[place]
        row = rows + candidate * stride
        wrong = bytes_greater(row, key_at) & used
        equal = bytes_equal(row, key_at) & doubtful
        lanes[unsettled] = equal
        candidates[unsettled] = candidate
        out[target] = load_int32(row + stride - 4)
        target += np.uint64((wrong | equal) == NONE)
        unsettled += np.uint64((wrong == NONE) & (equal != NONE))
    return np.int64(target), np.int64(unsettled)


@compiled
def _compare_bounds(clauses, rest, parts, candidates, count, lanes, out, filled):
    """The exact bounds of the lanes whose bytes are equal, nearly always one. `rest`: of the event, per lane, negative in high lanes.

    What asks ahead stands within the loop: handing an array on to a function counts its references, atomically, for every candidate."""
    columns = clauses.columns
    width = clauses.exact_bytes // (2 * columns)
    for place in range(-AHEAD, count):
        ahead = place + AHEAD
        if ahead < count:
            lane = np.int64(0)
            for part in range(parts):
                equal = lanes[ahead * parts + part]
                lane = part * 32 + np.int64(trailing_zeros(equal)) if equal != NONE else lane
            prefetch_address(clauses.exact + candidates[ahead] * clauses.exact_bytes + lane * width)
        if place < 0:
            continue
        candidate = candidates[place]
        exact = clauses.exact + candidate * clauses.exact_bytes
        holds = True
        for part in range(parts):
            equal = lanes[place * parts + part]
            while equal != NONE:
                lane = part * 32 + np.int64(trailing_zeros(equal))
                equal &= equal - BIT
                bound = load_uint16(exact + lane * 2) if width == 2 else np.int64(load_int32(exact + lane * 4))
                bound = bound if lane < columns else -bound
                holds &= bound <= rest[lane]
        out[filled] = load_int32(clauses.rows + (candidate + 1) * clauses.row_bytes - 4)
        filled += holds
    return filled


@compiled
def check_candidates(code, rest, clauses, count, scratch, out, filled):
    """Appends what the matching clauses of `count` lines in the scratch carry to out[filled:]; returns the new fill. `code`: the event's,
    by column; `rest`: as above."""
    lines, bits, places = scratch.lines, scratch.bits, scratch.places
    columns = clauses.columns
    parts = (2 * columns + 31) // 32
    key = np.zeros(parts * 32, np.uint8)
    used, doubtful = np.zeros(parts, np.uint32), np.zeros(parts, np.uint32)
    for column in range(columns):
        key[column], key[columns + column] = code[column], 255 - code[column]
        for lane in (column, columns + column):
            bit = BIT << np.uint32(lane & 31)
            used[lane >> 5] |= bit
            if code[column] > 0:  # absent: equality (0 = 0) is certain
                doubtful[lane >> 5] |= bit
    event = EventBytes(key, used, doubtful)
    candidates = np.empty(TILE + WORD + max(4, AHEAD), np.int64)
    lanes = np.empty((TILE + WORD + 1) * parts, np.uint32)
    words = _words_left(lines, count, bits, places)
    word = 0
    while word < words:
        found, word = _list_candidates(bits, places, word, words, candidates)
        candidates[found : found + AHEAD] = candidates[found - 1]
        for place in range(min(AHEAD, found)):
            prefetch_address(clauses.rows + candidates[place] * clauses.row_bytes)
        if parts == 1:
            filled, unsettled = _compare_few_bytes(clauses, event, candidates, found, lanes, out, filled)
        else:
            filled, unsettled = _compare_bytes(clauses, event, candidates, found, lanes, out, filled)
        filled = _compare_bounds(clauses, rest, parts, candidates, unsettled, lanes, out, filled)
    return filled
