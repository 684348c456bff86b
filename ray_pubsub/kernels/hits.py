"""Putting together the matches of several blocks."""

from __future__ import annotations

from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.intrinsics import prefetch

__all__ = ["MULTIPLE", "REMOVED", "RESIDUAL", "keep_visible", "place_hits"]

MULTIPLE, RESIDUAL, REMOVED = 1, 2, 4
"""Flags of a slot: it has several clauses; its clauses only find candidates; it was removed, at a version that `died` knows."""

AHEAD = 32


@compiled
def place_hits(offsets, slots, cursor, out):
    """Copies one block's matches to where each event's matches are being gathered; `cursor` moves on."""
    for event in range(len(offsets) - 1):
        target = cursor[event]
        for source in range(offsets[event], offsets[event + 1]):
            out[target] = slots[source]
            target += 1
        cursor[event] = target


@compiled
def keep_visible(offsets, slots, died, version, flags, seen, epoch):
    """Takes out, in place, slots removed at or before `version` and what a slot with several clauses repeats within an event.

    Most slots have no flag, and a byte each is nearer to the cache than a version each. `seen` remembers per slot
    the last event that had it, as epoch + event. Returns whether a slot needs its expression asked."""
    target = 0
    start = 0
    residual = False
    for event in range(len(offsets) - 1):
        end = offsets[event + 1]
        for source in range(start, end):
            prefetch(flags, slots[min(source + AHEAD, end - 1)])
            slot = slots[source]
            slots[target] = slot
            keep = True
            flag = flags[slot]
            if flag:
                keep = (flag & REMOVED) == 0 or died[slot] > version
                if flag & (MULTIPLE | RESIDUAL):
                    residual |= (flag & RESIDUAL) != 0
                    keep &= seen[slot] != epoch + event
                    seen[slot] = epoch + event
            target += keep
        start = end
        offsets[event + 1] = target
    return residual
