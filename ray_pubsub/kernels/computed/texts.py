"""Functions of strings, on the bytes of a whole column: string i is data[start[i]:stop[i]]."""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled

__all__ = ["count_characters", "switch_case", "trimmed_bounds"]

SPACE = 32


@compiled
def switch_case(data, start, stop, first_letter):
    """The strings, one behind the other, with the other case for the 26 ASCII letters from `first_letter` on; where each begins, with the
    end of the last; and which strings have characters beyond ASCII, whose bytes are copied as they are."""
    offsets, beyond = np.zeros(len(start) + 1, np.int64), np.zeros(len(start), np.bool_)
    for string in range(len(start)):
        offsets[string + 1] = offsets[string] + stop[string] - start[string]
    switched = np.empty(offsets[len(start)], np.uint8)
    for string in range(len(start)):
        begin, place = start[string], offsets[string]
        bits = np.uint8(0)
        for number in range(stop[string] - begin):
            byte = data[begin + number]
            bits |= byte
            is_letter = np.uint8(byte - np.uint8(first_letter)) < np.uint8(26)
            switched[place + number] = byte ^ np.uint8(SPACE if is_letter else 0)
        beyond[string] = bits >= 128
    return switched, offsets, beyond


@compiled
def trimmed_bounds(data, start, stop, left, right):
    """Returns where the strings begin and end without the spaces on either side."""
    begins, ends = np.empty(len(start), np.int64), np.empty(len(start), np.int64)
    for string in range(len(start)):
        begin, end = start[string], stop[string]
        if left:
            while begin < end and data[begin] == SPACE:
                begin += 1
        if right:
            while end > begin and data[end - 1] == SPACE:
                end -= 1
        begins[string], ends[string] = begin, end
    return begins, ends


@compiled
def count_characters(data, start, stop):
    """Per string its code points: the bytes that do not continue one."""
    counts = np.empty(len(start), np.int64)
    for string in range(len(start)):
        count = 0
        for place in range(start[string], stop[string]):
            count += (data[place] & 0xC0) != 0x80
        counts[string] = count
    return counts
