"""Converts Arrow decimals to numbers: the number that the same digits denote in an expression, or a reason why there is none.

A decimal's unscaled integer is read from its buffer. Up to 15 digits and a scale of 22, dividing by a power of ten is exact rounding;
trailing zeros (a decimal(38, 18) is full of them) are divided away first. The remaining, rare cases go through Python's Decimal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ray_pubsub.model.event_batch import split_floats, split_number
from ray_pubsub.model.values import ValueProblem, read_value

__all__ = ["read_decimals"]

SURE_DIGITS, EXACT_POWERS = 15, 22


def read_decimals(array: Any) -> tuple[NDArray[np.int64], NDArray[np.float64] | None, dict[int, str]]:
    """Returns (whole, rest) of an array without nulls, and the positions of decimals that cannot be represented, with the reason."""
    unscaled, short = _unscaled(array)
    scale = np.full(len(array), array.type.scale, dtype=np.int64)
    for _ in range(max(0, array.type.scale)):
        divisible = np.flatnonzero((scale > 0) & short & (unscaled % 10 == 0))
        if not len(divisible):
            break
        unscaled[divisible] //= 10
        scale[divisible] -= 1
    whole = np.where(short & (scale == 0), unscaled, 0)
    rest = np.zeros(len(array))
    simple = short & (scale > 0) & (scale <= EXACT_POWERS) & (np.abs(unscaled) < 10**SURE_DIGITS)
    places = np.flatnonzero(simple)
    if len(places):
        whole[places], float_rest = split_floats(unscaled[places] / 10.0 ** scale[places])
        rest[places] = 0 if float_rest is None else float_rest
    problems: dict[int, str] = {}
    others = np.flatnonzero(~simple & ~(short & (scale == 0)))
    for place, value in zip(others.tolist(), array.take(pa.array(others)).to_pylist(), strict=True):
        try:
            number = read_value(value)
            assert number is not None
            whole[place], rest[place] = split_number(number.plain)
        except ValueProblem as problem:
            problems[place] = str(problem)
    return whole, (rest if rest.any() else None), problems


def _unscaled(array: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Returns the unscaled integers, and a mask of those that fit 64 bits."""
    width = array.type.byte_width
    raw = np.frombuffer(array.buffers()[1], dtype=np.uint8)[array.offset * width : (array.offset + len(array)) * width]
    if width == 4:
        return raw.view("<i4").astype(np.int64), np.ones(len(array), dtype=bool)
    words = raw.view("<i8").reshape(-1, width // 8)
    lowest = words[:, 0].copy()
    return lowest, (words[:, 1:] == (lowest >> 63)[:, None]).all(axis=1) & (lowest != np.iinfo(np.int64).min)
