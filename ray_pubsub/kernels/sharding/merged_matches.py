"""Merges the matches that several shards found for one batch."""

from __future__ import annotations

from ray_pubsub.kernels.compiled import compiled

__all__ = ["drop_repeated", "mark_codes", "place_matches"]


@compiled
def place_matches(offsets, first, cursor, order):
    """Where one shard's matches go among each event's: `order` at the new place is the old one, counted from `first`; `cursor` moves on."""
    for event in range(len(offsets) - 1):
        target = cursor[event]
        for source in range(offsets[event], offsets[event + 1]):
            order[target] = first + source
            target += 1
        cursor[event] = target


@compiled
def drop_repeated(offsets, numbers, order, keys, stamps):
    """Takes out, in place, matches whose number an event has already; the first stays. Returns how many are left.

    `numbers` are in the old order. `keys` and `stamps` are a hash table with room for twice the matches of any event, a power of two; a
    place is taken if its stamp is the event's, so that nothing is cleared between events. `stamps` comes filled with -1."""
    mask = len(keys) - 1
    target = 0
    start = offsets[0]
    for event in range(len(offsets) - 1):
        end = offsets[event + 1]
        for source in range(start, end):
            number = numbers[order[source]]
            # Numbers follow one another: the low bits alone spread them without a collision.
            place = (number ^ (number >> 17)) & mask
            while stamps[place] == event and keys[place] != number:
                place = (place + 1) & mask
            if stamps[place] != event:
                stamps[place] = event
                keys[place] = number
                order[target] = order[source]
                target += 1
        start = end
        offsets[event + 1] = target
    return target


@compiled
def mark_codes(codes, used):
    """Which codes occur."""
    for i in range(len(codes)):
        used[codes[i]] = True
