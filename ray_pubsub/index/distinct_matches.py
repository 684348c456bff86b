"""The matches of a batch with each matched subscription named once, for passing on: two or four bytes a match, and whatever is known of
a subscription looked up and sent once, however many events of the batch match it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.distinct_slots import count_places, mark_slots

__all__ = ["DistinctMatches", "distinct_slots"]

MANY = 8
"""Matches are many if there is one for every so many slots: then marking slots takes less than naming every match."""


class DistinctMatches(NamedTuple):
    """Event number i matches `ids[places[offsets[i]:offsets[i + 1]]]`. Where matches are few, an id may stand there several times."""

    offsets: NDArray[np.int64]
    places: NDArray[Any]
    """Of 16 or 32 bits."""
    ids: NDArray[Any]
    times: NDArray[np.int32]
    """Per id, how many matches it has."""


def distinct_slots(slots: NDArray[np.int64], end: int) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int32]]:
    """Per match its place among the distinct slots; those slots; how often each occurs. Slots are below `end`."""
    if len(slots) * MANY < end:
        return np.arange(len(slots), dtype=np.int32), slots, np.ones(len(slots), np.int32)
    places, marks = np.empty(len(slots), np.int32), np.zeros(end, np.int32)
    firsts = np.empty(min(len(slots), end), np.int32)
    firsts = firsts[: mark_slots(slots, marks, places, firsts)]
    times = np.zeros(len(firsts), np.int32)
    count_places(places, times)
    narrow = places.astype(np.uint16) if len(firsts) <= 2**16 else places
    return narrow, slots[firsts], times
