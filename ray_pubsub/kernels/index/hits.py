"""Merges the matches of several blocks: drops removed subscriptions, and repeats of subscriptions with several clauses."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.compiled import compiled, inlined

__all__ = [
    "GONE",
    "LOOK",
    "MULTIPLE",
    "REMOVED",
    "RESIDUAL",
    "Visibility",
    "keep_visible",
    "place_hits",
    "set_marks",
    "visible_of_event",
]

MULTIPLE, RESIDUAL, REMOVED = 1, 2, 4
"""Flags of a slot: it has several clauses; its clauses only find candidates; it was removed, at a version that `died` knows."""


class Visibility(NamedTuple):
    """What decides whether a reader sees a slot."""

    died: Any
    """Per slot the version that removed it."""
    flags: Any
    """Per slot."""
    marks: Any
    """Two bits per slot, four slots a byte."""
    version: Any
    """The reader's."""
    seen: Any
    """Scratch: per slot the last event that had it, by its turn. Turns ascend over all calls, so it is never cleared."""


LOOK, GONE = 1, 2
"""Marks of a slot, two bits: it has a flag; it was removed before any snapshot that has these marks."""
ONE, TWO, THREE = np.uint64(LOOK), np.uint64(GONE), np.uint64(3)


@compiled
def place_hits(offsets, slots, cursor, out):
    """Copies one block's matches to where each event's matches are being gathered; `cursor` moves on."""
    for event in range(len(offsets) - 1):
        target = cursor[event]
        for source in range(offsets[event], offsets[event + 1]):
            out[target] = slots[source]
            target += 1
        cursor[event] = target


@inlined
def visible_of_event(slots, start, end, known, turn, out, target):
    """Appends to out[target:] those of slots[start:end] that were not removed at or before the reader's version, each once; returns the new
    fill and whether one needs its expression evaluated. `out` may be `slots` itself.

    Most slots are unmarked or gone, which two bits each say: they are nearer to the cache than a byte or a version each. Which of the two
    cannot be foreseen, so that is no branch."""
    died, flags, marks, version, seen = known
    residual = False
    filled = np.uint64(target)
    for source in range(np.uint64(start), np.uint64(end)):  # unsigned, as are slots: no index counts from the end
        slot = np.uint64(slots[source])
        mark = (np.uint64(marks[slot >> TWO]) >> ((slot & THREE) << ONE)) & THREE
        out[filled] = slots[source]
        keep = mark != TWO
        if mark == ONE:
            flag = flags[slot]
            keep = (flag & REMOVED) == 0 or died[slot] > version
            if flag & (MULTIPLE | RESIDUAL):
                residual |= (flag & RESIDUAL) != 0
                keep &= seen[slot] != turn
                seen[slot] = turn
        filled += np.uint64(keep)
    return np.int64(filled), residual


@compiled
def keep_visible(offsets, slots, known, first_turn):
    """Removes, in place, what is not visible in each event; the events' turns are numbered from `first_turn` on. Returns whether a slot
    needs its expression evaluated."""
    target = 0
    start = 0
    residual = False
    for event in range(len(offsets) - 1):
        end = offsets[event + 1]
        target, asked = visible_of_event(slots, start, end, known, first_turn + event, slots, target)
        residual |= asked
        start = end
        offsets[event + 1] = target
    return residual


@compiled
def set_marks(marks, slots, mark):
    """marks: four slots a byte."""
    for slot in slots:
        shift = (slot & 3) << 1
        marks[slot >> 2] = (marks[slot >> 2] & ~(3 << shift)) | (mark << shift)
