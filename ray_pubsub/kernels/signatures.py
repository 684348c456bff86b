"""Values to bins, bins to cells, cells to levels: the online path of the priority rules.

A column's bins of one kind lie between edges. An edge is a cut: just before its value (side 0) or just after it (side 1), compared as
(whole, rest, side). A value lies between its own two cuts, so its bin is the number of edges at or before the first of them.
"""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.bloom import block_of, early_places, has_all, signature_hash
from ray_pubsub.kernels.compiled import compiled, inlined
from ray_pubsub.kernels.intrinsics import prefetch

__all__ = ["NOWHERE", "bin_bounds", "bin_lanes", "cells_of", "determine", "pieces_of_ranges", "pieces_within"]

NOWHERE = -(1 << 40)
"""The step of a bin that no rule of the vector admits: it makes every cell it is part of negative."""
NO_BOUND = 2
CHUNK = 16
"""Events whose filter lines are asked for before the first of them is read."""
NO_HASH = np.uint64(0xFFFFFFFFFFFFFFFF)


@inlined
def _edges_at_or_before(whole, rest, side, first, count, edge_whole, edge_rest, edge_side):
    """Without branches, which would be mispredicted every other time."""
    low, left = first, count
    while left > 0:
        half = (left + 1) >> 1
        edge = low + half - 1
        same = edge_whole[edge] == whole
        equal = same & (edge_rest[edge] == rest) & (edge_side[edge] <= side)
        before = (edge_whole[edge] < whole) | (same & (edge_rest[edge] < rest)) | equal
        low += half * np.int64(before)
        left -= half
    return low - first


@compiled
def bin_lanes(
    lane_track,
    lane_column,
    lane_offsets,
    rows,
    whole,
    rest,
    base,
    first,
    edge_whole,
    edge_rest,
    edge_side,
    grid_low,
    grid_scale,
    grid_start,
    grid_size,
    grid,
    bins,
):
    """bins[row, column] of every value; values come in lanes, each of one track (column * 4 + kind). A lane of track -1 is left out.

    A track's grid cuts its range into equal steps: step g has the edges grid[g] … grid[g + 1], mostly none or one, so that a search takes
    as long among a thousand edges as among ten. The step is found by rounded arithmetic, the same for edges and values and never
    falling with the value, so no edge can be missed.
    """
    for lane in range(len(lane_track)):
        track = lane_track[lane]
        if track < 0:
            continue
        column, lowest, start = lane_column[lane], base[track], first[track]
        low, scale, steps, last = grid_low[track], grid_scale[track], grid_start[track], grid_size[track] - 1
        for place in range(lane_offsets[lane], lane_offsets[lane + 1]):
            step = (np.float64(whole[place]) + rest[place] - low) * scale
            step = min(step, np.float64(last)) if step > 0 else 0.0
            before = grid[steps + np.int64(step)]
            number = _edges_at_or_before(
                whole[place],
                rest[place],
                0,
                start + before,
                grid[steps + np.int64(step) + 1] - before,
                edge_whole,
                edge_rest,
                edge_side,
            )
            bins[rows[place], column] = lowest + before + number


@compiled
def bin_bounds(track, side, whole, rest, upper, inner, base, first, count, edge_whole, edge_rest, edge_side, bins):
    """The first bin that holds a value a lower bound admits; upper: the last one for an upper bound. With `inner`, the first and last
    bin all of whose values it admits (which may lie one beyond the kind's bins: there is none)."""
    for test in range(len(track)):
        number = track[test]
        if side[test] == NO_BOUND:
            bins[test] = base[number] + (count[number] if upper else 0)
            continue
        # Edges strictly before the cut (v, side) are those at or before (v, side - 1).
        strictly = upper != inner
        bins[test] = base[number] + _edges_at_or_before(
            whole[test],
            rest[test],
            np.int64(side[test]) - (1 if strictly else 0),
            first[number],
            count[number],
            edge_whole,
            edge_rest,
            edge_side,
        )
        if inner:
            bins[test] += -1 if upper else 1


@compiled
def pieces_of_ranges(low, high, group, group_after, group_before, rest_until, pieces):
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
def determine(
    bins,
    vector_starts,
    vector_columns,
    table_starts,
    steps,
    salts,
    occupied,
    filter_start,
    filter_size,
    probes,
    bits,
    highest_only,
    epoch,
    cache_bins,
    cache_epoch,
    cache_mask,
    masks,
):
    """masks[row] has bit l set if a filter says that a rule of level l + 1 may match; with `highest_only` just the highest of them.

    The cache (of no entries, or a power of two) is direct-mapped. An entry keeps the bins themselves, so that two signatures are never
    taken for one another, and the epoch it was found in. Returns the number of hits.
    """
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
                first, second, third, fourth, later, step = early_places(hashed, fewest_probes)
                for level in range(levels - 1, -1, -1):
                    if mask >> np.uint64(level):  # this level, or with `highest_only` a higher one
                        if highest_only:
                            break
                        if (mask >> np.uint64(level)) & np.uint64(1):
                            continue
                    if not occupied[vector, level]:
                        continue
                    block = block_of(hashed, filter_start[level], filter_size[level])
                    if has_all(block, first, second, third, fourth, later, step, probes[level], bits):
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
