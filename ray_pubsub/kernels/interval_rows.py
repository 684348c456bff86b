"""Subscriptions given as rows of intervals: which of them are plain."""

from __future__ import annotations

from ray_pubsub.kernels.compiled import compiled

__all__ = ["find_plain"]


@compiled
def find_plain(
    offsets, attribute, low, low_rest, has_low, low_closed, high, high_rest, has_high, high_closed, seen, plain
):
    """plain[i] = subscription i has one interval per attribute and none of them is empty. `seen`: per attribute, -1."""
    for number in range(len(offsets) - 1):
        good = True
        for row in range(offsets[number], offsets[number + 1]):
            good &= seen[attribute[row]] != number
            seen[attribute[row]] = number
            if has_low[row] and has_high[row] and low[row] >= high[row]:
                if low[row] > high[row] or low_rest[row] > high_rest[row]:
                    good = False
                elif low_rest[row] == high_rest[row]:
                    good &= low_closed[row] and high_closed[row]
        plain[number] = good
