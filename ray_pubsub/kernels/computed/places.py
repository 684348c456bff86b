"""Tests whether places lie within circles: compares the chord between two points of the unit sphere with the chord of the circle's
radius, which needs no trigonometry per pair. Pairs that rounding might decide are left to the specification's haversine."""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.intrinsics import prefetch

__all__ = ["circles_around"]

RELATIVE, ABSOLUTE = 1e-9, 1e-19
"""Squares of lengths that differ by less, relatively and absolutely, are too close. Rounding makes 7e-15 times the length at most."""
AHEAD = 8


@compiled
def circles_around(spots, first, last, entries, circles, place, found):
    """Spot i (a point of the sphere) is compared with the circles entries[first[i]:last[i]], of which row c of `circles` has the centre and
    the square of the radius, NaN for a shape that is no circle. Fills pairs of spots and circles around them from the front of `place` and
    `found`, those that are too close to say from the back, and returns how many there are of each."""
    inside, close, room = 0, 0, len(place)
    for spot in range(len(first)):
        x, y, z = spots[spot, 0], spots[spot, 1], spots[spot, 2]
        for entry in range(first[spot], last[spot]):
            prefetch(circles, 4 * np.int64(entries[min(entry + AHEAD, last[spot] - 1)]))
            circle = entries[entry]
            at = 4 * np.int64(circle)
            limit = circles[at + 3]
            square = (x - circles[at]) ** 2 + (y - circles[at + 1]) ** 2 + (z - circles[at + 2]) ** 2
            margin = RELATIVE * limit + ABSOLUTE
            place[inside], found[inside] = spot, circle
            within = square < limit - margin
            inside += within
            if not within and not square > limit + margin:
                close += 1
                place[room - close], found[room - close] = spot, circle
    return inside, close
