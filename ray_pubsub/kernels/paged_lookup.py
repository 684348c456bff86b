"""Numbers looked up in pages."""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled

__all__ = ["count_places", "distinct", "look_up"]

LOW = 0xFFFF_FFFF


@compiled
def look_up(numbers, bits, page_of, records, matches, out_words, out_subscribers):
    """Per number the first word of its record, and its subscriber: the low half of the second, whose high half counts `matches` more.

    Two readers at once may lose a count."""
    mask = (1 << bits) - 1
    for i in range(len(numbers)):
        page = page_of[numbers[i] >> bits]
        place = numbers[i] & mask
        second = records[page, place, 1]
        out_words[i] = records[page, place, 0]
        out_subscribers[i] = second & LOW
        if matches[i]:
            records[page, place, 1] = second + (np.int64(matches[i]) << 32)


@compiled
def distinct(numbers, bits, page_of, marks, places, firsts):
    """Per number, its place among the different ones in the order they come; `firsts`: where each is first. Returns how many there are.

    `marks` has a zero for every number of every page. A batch matches the same subscriptions again and again: a mark of four bytes stays in
    the cache where records do not, and what is known of a subscription crosses processes once."""
    mask = (1 << bits) - 1
    found = 0
    for i in range(len(numbers)):
        mark = (np.int64(page_of[numbers[i] >> bits]) << bits) + (numbers[i] & mask)
        place = marks[mark]
        if place == 0:
            firsts[found] = i
            found += 1
            place = np.int32(found)
            marks[mark] = place
        places[i] = place - 1
    return found


@compiled
def count_places(places, counts):
    for i in range(len(places)):
        counts[places[i]] += 1
