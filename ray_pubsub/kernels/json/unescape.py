"""Removes the escapes from strings of JSON texts."""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.json.syntax import BACKSLASH, MEANING

__all__ = ["unescape_string", "unescape_strings"]

U = 117


@compiled
def _code_unit(data, place):
    """The four hexadecimal digits at `place`."""
    unit = 0
    for digit in range(place, place + 4):
        byte = np.int64(data[digit])
        unit = unit * 16 + (byte - 48 if byte <= 57 else (byte | 32) - 87)
    return unit


@compiled
def unescape_string(data, place, end, out, filled):
    """Copies one valid string without lone surrogates to `out`, from `filled` on; returns the place behind it."""
    while place < end:
        byte = data[place]
        if byte != BACKSLASH:
            out[filled] = byte
            filled += 1
            place += 1
            continue
        letter = data[place + 1]
        if letter != U:
            out[filled] = MEANING[letter]
            filled += 1
            place += 2
            continue
        point = _code_unit(data, place + 2)
        place += 6
        if point >= 0xD800 and point < 0xE000:  # the other half follows
            point = 0x10000 + ((point - 0xD800) << 10) + (_code_unit(data, place + 2) - 0xDC00)
            place += 6
        if point < 0x80:
            out[filled] = point
            filled += 1
        elif point < 0x800:
            out[filled], out[filled + 1] = 0xC0 | (point >> 6), 0x80 | (point & 63)
            filled += 2
        elif point < 0x10000:
            out[filled], out[filled + 1] = 0xE0 | (point >> 12), 0x80 | ((point >> 6) & 63)
            out[filled + 2] = 0x80 | (point & 63)
            filled += 3
        else:
            out[filled], out[filled + 1] = 0xF0 | (point >> 18), 0x80 | ((point >> 12) & 63)
            out[filled + 2], out[filled + 3] = 0x80 | ((point >> 6) & 63), 0x80 | (point & 63)
            filled += 4
    return filled


@compiled
def unescape_strings(data, start, stop, out, out_start, out_stop):
    """Copies every string; all are valid and have no lone surrogates. `out` has room for as many bytes as they have now."""
    filled = 0
    for string in range(len(start)):
        out_start[string] = filled
        filled = unescape_string(data, start[string], stop[string], out, filled)
        out_stop[string] = filled
