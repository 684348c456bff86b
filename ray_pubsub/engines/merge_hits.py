"""Merges the matches of several segments."""

from __future__ import annotations

from typing import Any

import numpy as np

from ray_pubsub.engines.contract import Hits
from ray_pubsub.kernels.index.hits import place_hits

__all__ = ["merge_hits"]


def merge_hits(parts: list[Hits], events: int) -> Hits:
    """Returns for each event the matches of all parts."""
    if len(parts) == 1:
        return parts[0]
    if events == 1:
        slots = np.concatenate([part.slots for part in parts]) if parts else np.empty(0, dtype=np.int64)
        return Hits(np.array([0, len(slots)]), slots)
    offsets: Any = np.zeros(events + 1, dtype=np.int64)
    for part in parts:
        offsets += part.offsets
    slots = np.empty(int(offsets[-1]), dtype=np.int64)
    cursor = offsets[:-1].copy()
    for part in parts:
        place_hits(part.offsets, part.slots, cursor, slots)
    return Hits(offsets, slots)
