"""Converts values to codes: the rank of a value among a track's operands, doubled (REIN Fig. 4), so that gaps have codes too.

A track is the operands of one attribute and kind. With k operands it has the codes base … base + 2k: an even offset is a gap, the odd
offset 2r + 1 is operand number r. A direct track stands for all integers from `least` on and needs no operands in memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.columns.code_space import tracks_at
from ray_pubsub.kernels.compiled import compiled, inlined

__all__ = [
    "RANKED",
    "Ranges",
    "attribute_uses",
    "bound_codes",
    "direct_offset",
    "encode_each",
    "encode_lanes",
    "operand_ranges",
    "ranked_offset",
]

NO_BOUND = 2
RANKED = np.int64(-(2**63))
"""In `least`: the track's operands are in memory."""


class Ranges(NamedTuple):
    """What is known of the operands of each track before it is laid out."""

    least: Any
    largest: Any
    uses: Any
    """How many bounds there are."""
    fractional: Any
    """Whether any has a rest."""


# Handing an array on to another function takes and gives back a reference to it, atomically; so only numbers
# go along.
@compiled
def ranked_offset(whole, rest, count, start, operand_whole, operand_rest):
    low, high = start, start + count
    while low < high:
        middle = (low + high) >> 1
        operand = operand_whole[middle]
        if operand < whole or (operand == whole and operand_rest[middle] < rest):
            low = middle + 1
        else:
            high = middle
    found = low < start + count and operand_whole[low] == whole and operand_rest[low] == rest
    return 2 * (low - start) + (1 if found else 0)


@inlined
def direct_offset(whole, rest, count, least):
    if whole < least or (whole == least and rest < 0):
        return np.int64(0)
    if whole > least + (count - 1):  # the largest operand; a difference of the two could overflow
        return 2 * count
    return 2 * (whole - least) + 1 + np.int64(rest > 0) - np.int64(rest < 0)


@compiled
def encode_lanes(lane_track, lane_offsets, whole, rest, space, codes):
    """codes[i] = the code of value i; values come in lanes, each of one track. A lane of track -1 is one that nobody tests. `space`: see
    kernels/columns/code_space.py."""
    base, count, least, start, operand_whole, operand_rest = tracks_at(space, 0)
    for lane in range(len(lane_track)):
        number = lane_track[lane]
        if number < 0:
            continue
        for place in range(lane_offsets[lane], lane_offsets[lane + 1]):
            if least[number] != RANKED:
                offset = direct_offset(whole[place], rest[place], count[number], least[number])
            else:
                offset = ranked_offset(
                    whole[place], rest[place], count[number], start[number], operand_whole, operand_rest
                )
            codes[place] = base[number] + offset


@compiled
def encode_each(track, whole, rest, space, codes):
    """`encode_lanes` where every value has a track of its own."""
    base, count, least, start, operand_whole, operand_rest = tracks_at(space, 0)
    for place in range(len(track)):
        number = track[place]
        if least[number] != RANKED:
            offset = direct_offset(whole[place], rest[place], count[number], least[number])
        else:
            offset = ranked_offset(whole[place], rest[place], count[number], start[number], operand_whole, operand_rest)
        codes[place] = base[number] + offset


@compiled
def attribute_uses(attribute, form, continued):
    """Returns how many tests each attribute has, up to the largest number there is. Records with the flag `continued` belong to the test
    before them. numpy's bincount would widen all numbers to 64 bits first."""
    largest = np.int64(-1)
    for test in range(len(attribute)):
        largest = max(largest, np.int64(attribute[test]))
    uses = np.zeros(largest + 1, np.int64)
    for test in range(len(attribute)):
        uses[attribute[test]] += (form[test] & continued) == 0
    return uses


@compiled
def operand_ranges(track, chosen, bounds, ranges):
    """Extends the ranges of the tracks by the bounds of the chosen tests."""
    side, whole, rest = bounds
    least, largest, uses, fractional = ranges
    for test in range(len(track)):
        if chosen[test] and side[test] != NO_BOUND:
            number = track[test]
            least[number] = min(least[number], whole[test])
            largest[number] = max(largest[number], whole[test])
            uses[number] += 1
            fractional[number] |= rest[test] != 0


@compiled
def bound_codes(track, bounds, space, upper, codes):
    """The first code (upper: the last) that a bound admits. The cut at a side of operand r lies before code base + 2r + 1 + side."""
    side, whole, rest = bounds
    base, count, least, start, operand_whole, operand_rest = tracks_at(space, 0)
    for test in range(len(track)):
        number = track[test]
        if side[test] == NO_BOUND:
            codes[test] = base[number] + (2 * count[number] if upper else 0)
            continue
        if least[number] != RANKED:
            offset = direct_offset(whole[test], rest[test], count[number], least[number])
        else:
            offset = ranked_offset(whole[test], rest[test], count[number], start[number], operand_whole, operand_rest)
        codes[test] = base[number] + offset + side[test] - (1 if upper else 0)
