"""Checks whether the tests of a clause's row hold (kernels/pivot/clause_rows.py).

About half of the candidates hold, so a branch on a test would be mispredicted half of the time: on the sets of W4 that took three
quarters of an event's time, more than all reading of memory. So there is no branch on a result or a form. SHORT numbers are compared at
once with the event's code, both as points and as ends of intervals, and the only loop is over the tests. The result is two bit sets: the
numbers that are not above the code, and those that are not below it. A point holds if both have a bit, an interval if its low has a bit
in the first and its high a bit in the second.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ray_pubsub.kernels.compiled import inlined
from ray_pubsub.kernels.pivot.clause_rows import SHORT, words_behind

__all__ = ["row_holds"]

POINTS, LOWS = 2**SHORT - 1, 2**SHORT // 3
"""The bits of SHORT numbers, and of every second one."""
AT_ONCE = 8
"""Tests after which it is asked whether one has failed."""


@intrinsic
def _compared(typing_context, words, place, value):
    """Bit i of the result: words[place + i] <= value; bit SHORT + i: words[place + i] >= value. Numbers are not negative."""

    def generate(context, builder, signature, arguments):
        words, place, value = arguments
        kind = signature.args[0]
        data = context.make_array(kind)(context, builder, words).data
        number, index, bits = ir.IntType(kind.dtype.bitwidth), ir.IntType(32), ir.IntType(64)
        lanes = ir.VectorType(number, SHORT)
        source = builder.bitcast(builder.gep(data, [place]), lanes.as_pointer())
        numbers = builder.load(source, align=kind.dtype.bitwidth // 8)
        undefined = ir.Constant(lanes, ir.Undefined)
        code = builder.insert_element(undefined, builder.trunc(value, number), index(0))
        code = builder.shuffle_vector(code, undefined, ir.Constant(ir.VectorType(index, SHORT), [0] * SHORT))
        not_above, not_below = (
            builder.zext(builder.bitcast(builder.icmp_unsigned(operator, numbers, code), ir.IntType(SHORT)), bits)
            for operator in ("<=", ">=")
        )
        return builder.or_(not_above, builder.shl(not_below, bits(SHORT)))

    return types.int64(words, types.int64, types.int64), generate


@inlined
def row_holds(start, posted, words, codes):
    """Returns whether the row that starts there holds for an event's codes. `posted`: the first test is known to hold."""
    place = start + 1
    tests = np.int64(words[start])
    if posted:
        place += 2 + words_behind(np.int64(words[place + 1]))
        tests -= 1
    holds = True
    for number in range(tests):
        value, size = np.int64(codes[words[place]]), np.int64(words[place + 1])
        place += 2
        following = place + words_behind(size)
        pair = 1 - (size & 1)
        first, left = place, following - place
        while left > SHORT:
            half = (left >> 2) << 1
            if words[first + half] <= value:
                first += half
                left -= half
            else:
                left = half
        both = _compared(words, first, value)
        holds &= (both & (both >> (SHORT + pair)) & ((1 << left) - 1) & (LOWS if pair else POINTS)) != 0
        place = following
        if number % AT_ONCE == AT_ONCE - 1 and not holds:
            break
    return holds
