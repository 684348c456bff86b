"""Putting together what several shards found for one batch."""

from __future__ import annotations

from ray_pubsub.kernels.compiled import compiled

__all__ = ["drop_repeated", "place_matches"]


@compiled
def place_matches(offsets, numbers, subscribers, versions, cursor, out_numbers, out_subscribers, out_versions):
    """Copies one shard's matches to where each event's matches are being gathered; `cursor` moves on. Columns of versions may be empty."""
    with_versions = len(out_versions) > 0
    for event in range(len(offsets) - 1):
        target = cursor[event]
        for source in range(offsets[event], offsets[event + 1]):
            out_numbers[target] = numbers[source]
            out_subscribers[target] = subscribers[source]
            if with_versions:
                out_versions[target] = versions[source]
            target += 1
        cursor[event] = target


@compiled
def drop_repeated(offsets, numbers, subscribers, versions, keys, stamps):
    """Takes out, in place, numbers that an event has already; the first stays. Returns how many are left.

    `keys` and `stamps` are a hash table with room for twice the matches of any event, a power of two; a place is taken if its stamp is
    the event's, so that nothing is cleared between events. `stamps` comes filled with -1."""
    with_versions = len(versions) > 0
    mask = len(keys) - 1
    target = 0
    start = offsets[0]
    for event in range(len(offsets) - 1):
        end = offsets[event + 1]
        for source in range(start, end):
            number = numbers[source]
            # Numbers follow one another: the low bits alone spread them without a collision.
            place = (number ^ (number >> 17)) & mask
            while stamps[place] == event and keys[place] != number:
                place = (place + 1) & mask
            if stamps[place] != event:
                stamps[place] = event
                keys[place] = number
                numbers[target] = number
                subscribers[target] = subscribers[source]
                if with_versions:
                    versions[target] = versions[source]
                target += 1
        start = end
        offsets[event + 1] = target
    return target
