"""A batch of events against dense clauses, one bit per event: a clause's candidates are the AND of one table row per bound.

    1. Per group of clauses, neighbours in clustered order: the events inside its outer box, by an AND of ready masks (half of them on the
       standard workloads W1 and W2).
    2. Tables for these events, in chunks of up to 512: per lane and row of bytes, which of them may satisfy a bound of that row.
    3. Per clause the AND of its rows: half of the time. The tables stay in the L2 cache, so loads per cycle are the limit, not memory.
    4. Bits left (1.4 times the matches) are compared by the clause's bytes; equal bytes (12 %) are settled by the exact bound of that very
       column, as for a single event (kernels/dense/match.py), with the same arrays.

This is DEXIN's inclusive method turned on its side. It reads every clause once per batch, whatever the events, and so pays for batches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.dense.transposed_tables import make_masks, make_tables
from ray_pubsub.kernels.intrinsics import bytes_equal, bytes_greater, load_int32, load_uint16, prefetch_address

__all__ = ["CHUNK_WORDS", "ROOM", "TILE", "ClauseRows", "Scratch", "match_groups"]

CHUNK_WORDS = 8
TILE = 256
"""Clauses whose masks are made before their candidates are looked at: bounds the candidates, keeps the masks in the L1 cache."""
ROOM = TILE * CHUNK_WORDS * 64 + 1
"""The most pairs a tile can have, and one, since a pair is written before it is known to be one."""
ZERO, ONE, ALL_ONES = np.uint64(0), np.uint64(1), ~np.uint64(0)
THREE, SIX, SEVEN, EVENT = np.uint64(3), np.uint64(6), np.uint64(7), np.uint64(65535)


class ClauseRows(NamedTuple):
    """A segment's clauses. Group g is the clauses starts[g] … starts[g + 1] - 1; its rows begin at listed[first[g]]."""

    listed: Any
    quads: Any
    starts: Any
    first: Any
    outer: Any
    least: Any
    bytes_at: Any
    """Address of the rows of bytes."""
    stride: Any
    exact_at: Any
    """Address of the exact bounds."""
    width: Any
    """Bytes of a bound."""


class Scratch(NamedTuple):
    """Work space of one thread, on cache lines' boundaries."""

    selected: Any
    survivors: Any
    table: Any
    counts: Any
    masks: Any
    filled: Any
    candidates: Any


class TilePlaces(NamedTuple):
    """Of a tile's clauses."""

    rows_at: Any
    """Address of the rows of bytes,"""
    stride: Any
    """the bytes of one;"""
    exact_at: Any
    """address of the exact bounds,"""
    width: Any
    """the bytes of one."""


@compiled
def _select(outer, passing, events, selected, survivors):
    """Events that satisfy the loosest bound of every lane; returns their number."""
    words = passing.shape[2]
    selected[:words] = ALL_ONES
    if events & 63:
        selected[words - 1] = (ONE << np.uint64(events & 63)) - ONE
    for lane in range(len(outer)):
        row = outer[lane]
        if row != 0:
            masks = passing[lane, row]
            for word in range(words):
                selected[word] &= masks[word]
    count = 0
    for word in range(words):
        bits = selected[word]
        while bits != ZERO:
            survivors[count] = word * 64 + np.int64(trailing_zeros(bits))
            count += 1
            bits &= bits - ONE
    return count


@compiled
def _list_candidates(count, chunk, width, masks, filled_eights, rows_at, stride, candidates):
    """Bits to clause of the tile << 16 | event, and a request for the clause's bytes. The flags of eight clauses are one word: the end of
    its loop, hard to predict, comes once in eight clauses. Usually a mask has one bit, sometimes two: those go without a branch."""
    found = np.int64(0)
    for eight in range((count + 7) >> 3):
        flags = filled_eights[eight]
        while flags != ZERO:
            flag = trailing_zeros(flags)
            flags &= flags - ONE
            clause = np.uint64(eight * 8) + (flag >> THREE)
            word = flag & SEVEN
            prefetch_address(rows_at + np.int64(clause) * stride)
            bits = masks[np.int64(clause) * width + np.int64(word)]
            first = np.int64(word << SIX)
            candidates[found] = (clause << np.uint64(16)) | np.uint64(chunk[first + np.int64(trailing_zeros(bits))])
            bits &= bits - ONE
            found += 1
            second = first + np.int64(trailing_zeros(bits) & np.uint64(63))
            candidates[found] = (clause << np.uint64(16)) | np.uint64(chunk[second])
            found += bits != ZERO
            bits &= bits - np.uint64(bits != ZERO)
            while bits != ZERO:
                candidates[found] = (clause << np.uint64(16)) | np.uint64(chunk[first + np.int64(trailing_zeros(bits))])
                found += 1
                bits &= bits - ONE
    return found


@compiled
def _compare_bytes(count, tile, bits, candidates, pairs, made):
    """Sure matches to pairs[made:], as event << 32 | number; doubtful ones, 12 %, stay in `candidates` and their bounds are asked for. No
    branch on the outcome: a quarter fails. Returns how many pairs and how many doubtful ones there are."""
    rows_at, stride, exact_at, width = tile
    keys_at = bits.keys.ctypes.data
    parts = bits.unsure.shape[1]
    columns = bits.rests.shape[1]
    doubtful = 0
    for place in range(count):
        candidate = candidates[place]
        event, clause = np.int64(candidate & np.uint32(65535)), np.int64(candidate >> np.uint32(16))
        row_at = rows_at + clause * stride
        key_at = keys_at + event * 32 * parts
        wrong = np.uint32(0)
        unsure = np.uint32(0)
        lane = np.int64(0)
        for part in range(parts):
            wrong |= bytes_greater(row_at + part * 32, key_at + part * 32)
            equal = bytes_equal(row_at + part * 32, key_at + part * 32) & bits.unsure[event, part]
            lane = part * 32 + np.int64(trailing_zeros(equal)) if equal != 0 else lane
            unsure |= equal
        pairs[made] = (np.uint64(event) << np.uint64(32)) | np.uint64(np.uint32(load_int32(row_at + stride - 4)))
        candidates[doubtful] = candidate
        made += (wrong == 0) & (unsure == 0)
        is_doubtful = (wrong == 0) & (unsure != 0)
        doubtful += is_doubtful
        prefetch_address(exact_at + (clause * 2 * columns + lane) * width if is_doubtful else row_at)
    return made, doubtful


@compiled
def _compare_bounds(count, tile, bits, candidates, pairs, made):
    """The exact bounds of the lanes whose bytes were equal, nearly always one."""
    rows_at, stride, exact_at, width = tile
    keys_at = bits.keys.ctypes.data
    parts = bits.unsure.shape[1]
    columns = bits.rests.shape[1]
    for place in range(count):
        candidate = candidates[place]
        event, clause = np.int64(candidate & np.uint32(65535)), np.int64(candidate >> np.uint32(16))
        row_at, key_at = rows_at + clause * stride, keys_at + event * 32 * parts
        holds = True
        for part in range(parts):
            equal = bytes_equal(row_at + part * 32, key_at + part * 32) & bits.unsure[event, part]
            while equal != 0:
                lane = part * 32 + np.int64(trailing_zeros(equal))
                equal &= equal - np.uint32(1)
                place_at = exact_at + (clause * 2 * columns + lane) * width
                bound = load_uint16(place_at) if width == 2 else np.int64(load_int32(place_at))
                if lane < columns:
                    holds &= bound <= bits.rests[event, lane]
                else:
                    holds &= bits.rests[event, lane - columns] <= bound
        pairs[made] = (np.uint64(event) << np.uint64(32)) | np.uint64(np.uint32(load_int32(row_at + stride - 4)))
        made += holds
    return made


@compiled
def _width(events):
    """Words of a chunk's masks: 512 events, or as few as are left need."""
    if events <= 64:
        return 1
    if events <= 128:
        return 2
    return 4 if events <= 256 else CHUNK_WORDS


@compiled
def match_groups(position, rows, bits, scratch, pairs):
    """Pairs of event and clause to `pairs`, from `position` (group, its events that are done, clause) on, which is moved to where there may
    be no more room, or to the group behind the last. Returns the number of pairs; there must be room for ROOM."""
    events, columns = bits.rests.shape
    stride, bound_bytes = rows.stride, rows.width
    selected, survivors, table, counts, masks, filled, candidates = scratch
    filled_eights = filled.view(np.uint64)
    made = 0
    for group in range(position[0], len(rows.outer)):
        count = _select(rows.outer[group], bits.passing, events, selected, survivors)
        start, end = rows.starts[group], rows.starts[group + 1]
        done, begin = position[1], max(start, position[2])
        position[:] = 0
        while done < count:
            width = _width(count - done)
            chunk = survivors[done : min(count, done + 64 * width)]
            make_tables(chunk, rows.least[group], bits.low_row, width, table, counts)
            listed_at = rows.listed.ctypes.data + 2 * rows.first[group]
            for clause in range(start, begin):
                listed_at += 8 * np.int64(rows.quads[clause])
            for tile in range(begin, end, TILE):
                if made + ROOM > len(pairs):
                    position[0], position[1], position[2] = group, done, tile
                    return made
                tile_end = min(end, tile + TILE)
                rows_at = rows.bytes_at + tile * stride
                exact_at = rows.exact_at + tile * 2 * columns * bound_bytes
                listed_at = make_masks(tile, tile_end, rows.quads, listed_at, width, table, masks, filled)
                found = _list_candidates(
                    tile_end - tile, chunk, width, masks, filled_eights, rows_at, stride, candidates
                )
                places = TilePlaces(rows_at, stride, exact_at, bound_bytes)
                made, doubtful = _compare_bytes(found, places, bits, candidates, pairs, made)
                made = _compare_bounds(doubtful, places, bits, candidates, pairs, made)
            done += len(chunk)
            begin = start
    position[0] = len(rows.outer)
    return made
