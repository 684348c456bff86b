"""Numbers looked up in pages."""

from __future__ import annotations

from ray_pubsub.kernels.compiled import compiled

__all__ = ["look_up"]


@compiled
def look_up(numbers, bits, page_of, subscriber, matches, more, out_subscribers, out_places):
    """Per number its subscriber and its place among all pages; and so many matches more for it. Two readers at once may lose a count."""
    mask = (1 << bits) - 1
    for i in range(len(numbers)):
        page = page_of[numbers[i] >> bits]
        place = numbers[i] & mask
        out_subscribers[i] = subscriber[page, place]
        out_places[i] = (page << bits) | place
        matches[page, place] += more
