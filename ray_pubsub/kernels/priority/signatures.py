"""Values to bins, bins to cells, cells to levels: the online path of the priority rules.

A column's bins of one kind lie between edges. An edge is a cut: just before its value (side 0) or just after it (side 1), compared as
(whole, rest, side). A value lies between its own two cuts, so its bin is the number of edges at or before the first of them.

The structs below are passed from Python as plain tuples, which numba recognises in C; a NamedTuple takes it a microsecond more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.compiled import compiled, inlined
from ray_pubsub.kernels.intrinsics import prefetch
from ray_pubsub.kernels.priority.bloom import block_of, early_places, has_all, signature_hash

__all__ = [
    "NOWHERE", "Edges", "Grid", "Lanes", "Tracks", "Vectors", "bin_bounds", "bin_lanes", "cells_of", "determine", "pieces_of_ranges",
    "pieces_within",
]  # fmt: skip

NOWHERE = -(1 << 40)
"""The step of a bin that no rule of the vector admits: it makes every cell it is part of negative."""
NO_BOUND = 2
CHUNK = 16
"""Events whose filter lines are asked for before the first of them is read."""
NO_HASH = np.uint64(0xFFFFFFFFFFFFFFFF)


class Lanes(NamedTuple):
    """Values in lanes, each of one track (column * 4 + kind; -1: left out). Lane l has the values offsets[l] … offsets[l + 1] - 1."""

    track: Any
    column: Any
    offsets: Any
    rows: Any
    whole: Any
    rest: Any


class Tracks(NamedTuple):
    """Per track its first bin, its first edge, and how many edges it has."""

    base: Any
    first: Any
    count: Any


class Edges(NamedTuple):
    """The edges of all tracks, ascending within each."""

    whole: Any
    rest: Any
    side: Any


class Grid(NamedTuple):
    """Per track the value at which its grid begins, its steps per unit, its first step in `edges`, and how many steps it has. Step g has
    the edges edges[g] … edges[g + 1] - 1, counted from the track's first."""

    low: Any
    scale: Any
    start: Any
    size: Any
    edges: Any


class Vectors(NamedTuple):
    """Vector v has the axes starts[v] … starts[v + 1] - 1. Axis a is of column columns[a]; bin b of it adds steps[tables[a] + b] to the
    number of the cell. occupied[v, l]: some rule of level l + 1 is in the vector."""

    starts: Any
    columns: Any
    tables: Any
    steps: Any
    salts: Any
    occupied: Any


@inlined
def _edges_at_or_before(whole, rest, side, first, count, edges):
    """Without branches, which would be mispredicted every other time."""
    low, left = first, count
    while left > 0:
        half = (left + 1) >> 1
        edge = low + half - 1
        same = edges.whole[edge] == whole
        equal = same & (edges.rest[edge] == rest) & (edges.side[edge] <= side)
        before = (edges.whole[edge] < whole) | (same & (edges.rest[edge] < rest)) | equal
        low += half * np.int64(before)
        left -= half
    return low - first


@compiled
def bin_lanes(lanes, tracks, edges, grid, bins):
    """bins[row, column] of every value.

    A track's grid cuts its range into equal steps, most with no edge or one, so that a search takes as long among a thousand edges as among
    ten. The step is found by rounded arithmetic, the same for edges and values and never falling with the value, so no edge can be
    missed.
    """
    values, track_of, edge, steps = Lanes(*lanes), Tracks(*tracks), Edges(*edges), Grid(*grid)
    for lane in range(len(values.track)):
        track = values.track[lane]
        if track < 0:
            continue
        column, lowest, start = values.column[lane], track_of.base[track], track_of.first[track]
        low, scale, first, last = steps.low[track], steps.scale[track], steps.start[track], steps.size[track] - 1
        for place in range(values.offsets[lane], values.offsets[lane + 1]):
            whole, rest = values.whole[place], values.rest[place]
            step = (np.float64(whole) + rest - low) * scale
            step = min(step, np.float64(last)) if step > 0 else 0.0
            before = steps.edges[first + np.int64(step)]
            count = steps.edges[first + np.int64(step) + 1] - before
            number = _edges_at_or_before(whole, rest, 0, start + before, count, edge)
            bins[values.rows[place], column] = lowest + before + number


@compiled
def bin_bounds(bounds, upper, inner, tracks, edges, bins):
    """The first bin that holds a value a lower bound admits; upper: the last one for an upper bound. With `inner`, the first and last
    bin all of whose values it admits (which may lie one beyond the kind's bins: there is none). `bounds`: per bound its track, side, whole
    and rest."""
    track, side, whole, rest = bounds
    base, first, count = tracks
    edge = Edges(*edges)
    for test in range(len(track)):
        number = track[test]
        if side[test] == NO_BOUND:
            bins[test] = base[number] + (count[number] if upper else 0)
            continue
        # Edges strictly before the cut (v, side) are those at or before (v, side - 1).
        cut = np.int64(side[test]) - (1 if upper != inner else 0)
        found = _edges_at_or_before(whole[test], rest[test], cut, first[number], count[number], edge)
        bins[test] = base[number] + found
        if inner:
            bins[test] += -1 if upper else 1


@compiled
def pieces_of_ranges(low, high, group_after, group_before, rest_until, pieces):
    """A range of a column's bins as ranges of a vector's groups: the groups it meets, and the rest (group 0) if it meets that too."""
    for clause in range(len(low)):
        first, last = group_after[low[clause]], group_before[high[clause]]
        with_rest = rest_until[high[clause] + 1] > rest_until[low[clause]]
        pieces[clause, 2] = -1
        pieces[clause, 3] = -1
        if first > last:  # nothing but rest
            pieces[clause, 0] = 0
            pieces[clause, 1] = 0
        elif with_rest and first == 1:
            pieces[clause, 0] = 0
            pieces[clause, 1] = last
        else:
            pieces[clause, 0] = first
            pieces[clause, 1] = last
            if with_rest:
                pieces[clause, 2] = 0
                pieces[clause, 3] = 0


@compiled
def pieces_within(low, high, begins_after, ends_before, pieces):
    """The groups that lie wholly within a range of a column's bins; the rest never counts as such."""
    for clause in range(len(low)):
        pieces[clause, 0] = -1
        pieces[clause, 1] = -1
        pieces[clause, 2] = -1
        pieces[clause, 3] = -1
        if low[clause] <= high[clause]:
            first, last = begins_after[low[clause]], ends_before[high[clause]]
            if first <= last:
                pieces[clause, 0] = first
                pieces[clause, 1] = last


@compiled
def cells_of(bins, columns, table_starts, steps, cells):
    """The cell of every event in one vector; negative if no rule of the vector admits one of its bins."""
    for row in range(len(bins)):
        cell = np.int64(0)
        for place in range(len(columns)):
            cell += steps[table_starts[place] + bins[row, columns[place]]]
        cells[row] = cell


@compiled
def determine(bins, vectors, filters, cache, highest_only, epoch, masks):
    """masks[row] has bit l set if a filter says that a rule of level l + 1 may match; with `highest_only` just the highest of them. Returns
    how many were in the cache.

    `filters`: per level where its filter begins in the bits, its size and its probes; and the bits. The cache is direct-mapped, of no
    entries or a power of two. An entry keeps the bins themselves, so that two signatures are never taken for one another, and the epoch
    it was found in.
    """
    vector_starts, vector_columns, table_starts, steps, salts, occupied = Vectors(*vectors)
    filter_start, filter_size, probes, bits = filters
    cache_bins, cache_epoch, cache_mask = cache
    rows, columns = bins.shape
    levels = len(filter_size)
    entries = len(cache_epoch)
    hits = 0
    fewest_probes = probes.min() if levels else 0
    slots = np.empty(CHUNK, np.int64)
    open_rows = np.empty(CHUNK, np.int64)
    hashes = np.empty(CHUNK, np.uint64)
    for start in range(0, rows, CHUNK):
        left = 0
        for row in range(start, min(start + CHUNK, rows)):
            slot = -1
            if entries:
                slot = _cache_slot(bins, row, columns, entries)
                if _is_cached(bins, row, columns, slot, epoch, cache_epoch, cache_bins):
                    masks[row] = cache_mask[slot]
                    hits += 1
                    continue
            masks[row] = 0
            open_rows[left] = row
            slots[left] = slot
            left += 1
        for vector in range(len(salts)):
            # First all hashes of the chunk, asking for the lines they need, then the probes: the lines are on their way meanwhile.
            for place in range(left):
                row = open_rows[place]
                if highest_only and masks[row] >> np.uint64(levels - 1):  # it has the highest level there is
                    hashes[place] = NO_HASH
                    continue
                cell = np.int64(0)
                for axis in range(vector_starts[vector], vector_starts[vector + 1]):
                    cell += steps[table_starts[axis] + bins[row, vector_columns[axis]]]
                if cell < 0:
                    hashes[place] = NO_HASH
                    continue
                hashed = signature_hash(cell, salts[vector])
                hashes[place] = hashed if hashed != NO_HASH else np.uint64(0)
                for level in range(levels):
                    if occupied[vector, level] and not masks[row] >> np.uint64(level):
                        block = block_of(hashes[place], filter_start[level], filter_size[level])
                        prefetch(bits, np.int64(block >> np.uint64(6)))
            for place in range(left):
                hashed = hashes[place]
                if hashed == NO_HASH:
                    continue
                mask = masks[open_rows[place]]
                places = early_places(hashed, fewest_probes)
                for level in range(levels - 1, -1, -1):
                    if mask >> np.uint64(level):  # this level, or with `highest_only` a higher one
                        if highest_only:
                            break
                        if (mask >> np.uint64(level)) & np.uint64(1):
                            continue
                    if not occupied[vector, level]:
                        continue
                    block = block_of(hashed, filter_start[level], filter_size[level])
                    if has_all(block, places, probes[level], bits):
                        mask = (np.uint64(0) if highest_only else mask) | np.uint64(1) << np.uint64(level)
                masks[open_rows[place]] = mask
        if entries:
            for place in range(left):
                row, slot = open_rows[place], slots[place]
                cache_epoch[slot] = epoch
                cache_mask[slot] = masks[row]
                for column in range(columns):
                    cache_bins[slot, column] = bins[row, column]
    return hits


@inlined
def _cache_slot(bins, row, columns, entries):
    mixed = np.uint64(0)
    for column in range(columns):
        mixed = (mixed ^ np.uint64(bins[row, column])) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return np.int64(mixed & np.uint64(entries - 1))


@inlined
def _is_cached(bins, row, columns, slot, epoch, cache_epoch, cache_bins):
    same = cache_epoch[slot] == epoch
    for column in range(columns):
        same &= cache_bins[slot, column] == bins[row, column]
    return same
