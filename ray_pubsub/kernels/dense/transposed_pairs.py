"""Sorts pairs of event and clause by event."""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled

__all__ = ["sort_by_event"]


@compiled
def sort_by_event(pairs, offsets, numbers):
    """Counting sort of event << 32 | number: event i has numbers[offsets[i]:offsets[i + 1]]."""
    events = len(offsets) - 1
    offsets[:] = 0
    for place in range(len(pairs)):
        offsets[np.int64(pairs[place] >> np.uint64(32)) + 1] += 1
    for event in range(events):
        offsets[event + 1] += offsets[event]
    cursor = offsets[:-1].copy()
    for place in range(len(pairs)):
        event = np.int64(pairs[place] >> np.uint64(32))
        numbers[cursor[event]] = np.int64(pairs[place] & np.uint64(0xFFFFFFFF))
        cursor[event] += 1
