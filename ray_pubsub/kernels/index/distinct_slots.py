"""Finds which slots occur among a batch's matches."""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled

__all__ = ["count_places", "mark_slots"]


@compiled
def mark_slots(slots, marks, places, firsts):
    """Per match, the place of its slot among the different ones in the order they come; `firsts`: where each is first. Returns how many
    there are. `marks` has a zero for every slot: four bytes, which stay in the cache where more would not."""
    found = 0
    for i in range(len(slots)):
        place = marks[slots[i]]
        if place == 0:
            firsts[found] = i
            found += 1
            place = np.int32(found)
            marks[slots[i]] = place
        places[i] = place - 1
    return found


@compiled
def count_places(places, counts):
    for i in range(len(places)):
        counts[places[i]] += 1
