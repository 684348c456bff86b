"""Values to codes: the rank of a value among a track's operands, doubled (REIN Fig. 4), so that gaps have codes too.

A track is the operands of one attribute and kind. With k operands it has the codes base … base + 2k: an even offset is a gap, the odd
offset 2r + 1 is operand number r. A direct track stands for all integers from `least` on and needs no operands in memory.
"""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled, inlined

__all__ = ["bound_codes", "encode_each", "encode_lanes", "operand_ranges"]

NO_BOUND = 2


@inlined
def _code(whole, rest, base, count, least, start, operand_whole, operand_rest):
    if least != np.iinfo(np.int64).min:  # direct
        if whole < least or (whole == least and rest < 0):
            return base
        if whole > least + (count - 1):  # the largest operand; a difference of the two could overflow
            return base + 2 * count
        offset = 2 * (whole - least) + 1
        if rest > 0:
            return base + offset + 1
        return base + offset - (1 if rest < 0 else 0)
    low, high = start, start + count
    while low < high:
        middle = (low + high) >> 1
        operand = operand_whole[middle]
        if operand < whole or (operand == whole and operand_rest[middle] < rest):
            low = middle + 1
        else:
            high = middle
    found = low < start + count and operand_whole[low] == whole and operand_rest[low] == rest
    return base + 2 * (low - start) + (1 if found else 0)


@compiled
def encode_lanes(lane_track, lane_offsets, whole, rest, base, count, least, start, operand_whole, operand_rest, codes):
    """codes[i] = the code of value i; values come in lanes, each of one track. A lane of track -1 is one that nobody tests."""
    for lane in range(len(lane_track)):
        number = lane_track[lane]
        if number < 0:
            continue
        for place in range(lane_offsets[lane], lane_offsets[lane + 1]):
            codes[place] = _code(
                whole[place],
                rest[place],
                base[number],
                count[number],
                least[number],
                start[number],
                operand_whole,
                operand_rest,
            )


@compiled
def encode_each(track, whole, rest, base, count, least, start, operand_whole, operand_rest, codes):
    """`encode_lanes` where every value has a track of its own."""
    for place in range(len(track)):
        number = track[place]
        codes[place] = _code(
            whole[place],
            rest[place],
            base[number],
            count[number],
            least[number],
            start[number],
            operand_whole,
            operand_rest,
        )


@compiled
def operand_ranges(track, chosen, side, whole, rest, least, largest, uses, fractional):
    """Per track, over the bounds of the chosen tests: the least and the largest whole, how many there are, whether any has a rest."""
    for test in range(len(track)):
        if chosen[test] and side[test] != NO_BOUND:
            number = track[test]
            least[number] = min(least[number], whole[test])
            largest[number] = max(largest[number], whole[test])
            uses[number] += 1
            fractional[number] |= rest[test] != 0


@compiled
def bound_codes(track, side, whole, rest, base, count, least, start, operand_whole, operand_rest, upper, codes):
    """The first code (upper: the last) that a bound admits. The cut at a side of operand r lies before code base + 2r + 1 + side."""
    for test in range(len(track)):
        number = track[test]
        if side[test] == NO_BOUND:
            codes[test] = base[number] + (2 * count[number] if upper else 0)
        else:
            code = _code(
                whole[test],
                rest[test],
                base[number],
                count[number],
                least[number],
                start[number],
                operand_whole,
                operand_rest,
            )
            codes[test] = code + side[test] - (1 if upper else 0)
