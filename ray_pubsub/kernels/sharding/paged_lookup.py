"""Looks up numbers in an array that is split into pages."""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled

__all__ = ["look_up"]

LOW = 0xFFFF_FFFF


@compiled
def look_up(numbers, bits, page_of, records, matches, out_words, out_subscribers):
    """Per number the first word of its record, and its subscriber: the low half of the second, whose high half counts `matches` more.

    One record is one cache line's worth of asking. Two readers at once may lose a count."""
    mask = (1 << bits) - 1
    for i in range(len(numbers)):
        page = page_of[numbers[i] >> bits]
        place = numbers[i] & mask
        second = records[page, place, 1]
        out_words[i] = records[page, place, 0]
        out_subscribers[i] = second & LOW
        if matches[i]:
            records[page, place, 1] = second + (np.int64(matches[i]) << 32)
