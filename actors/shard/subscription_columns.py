"""The columns of a shard's subscriptions by number: the id, the subscriber, and how often each matched.

Numbers only grow, and most are removed at some time. So they are stored in pages, and a page without a live number is reused for other
numbers. A reader may resolve the matches of a snapshot that is older than the last removal, so a page is reused only when no reader is left
that began before the page was retired (`begin_reading`).
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.sharding.paged_lookup import look_up

__all__ = ["Known", "MatchCounts", "SubscriptionColumns"]

BITS = 10
PAGE = 1 << BITS
FIRST_PAGES = 16
LOW = 0xFFFF_FFFF


class MatchCounts(NamedTuple):
    """All subscriptions of a shard, in columns. `matches` counts since a subscription came to the shard."""

    numbers: NDArray[np.int64]
    ids: NDArray[Any]
    subscribers: NDArray[np.int32]
    matches: NDArray[np.int64]


class Known(NamedTuple):
    """Ids and subscribers of some subscriptions, in columns."""

    ids: NDArray[Any]
    subscribers: NDArray[np.int32]


NOBODY = Known(np.empty(0, np.int64), np.empty(0, np.int32))


class Pool(NamedTuple):
    """All pages. The pool is replaced as a whole, so that a reader never sees records of one version with ids of another."""

    records: NDArray[np.int64]
    """For each number its id and, packed in one word, its subscriber and its matches (kernels/sharding/paged_lookup.py). If ids are
    strings, the first word is the number's own place in `ids`, which has the ids."""
    ids: NDArray[Any] | None


class SubscriptionColumns:
    """The subscriptions of a shard, for one writer at a time and any number of readers."""

    def __init__(self) -> None:
        self._page_of = np.full(64, -1, np.int32)
        """The page of the numbers from place * PAGE on; -1 if there is none."""
        self._place_of = np.full(FIRST_PAGES, -1, np.int64)
        self._pool = Pool(np.zeros((FIRST_PAGES, PAGE, 2), np.int64), None)
        self._alive = np.zeros((FIRST_PAGES, PAGE), np.bool_)
        self._living = np.zeros(FIRST_PAGES, np.int64)
        self._free = list(range(FIRST_PAGES))
        self._retired: dict[int, int] = {}
        """The pages without a live number, with the last generation of readers that may still use them."""
        self._lock = threading.Lock()
        self._generation = 0
        self._readers: dict[int, int] = {}

    def __len__(self) -> int:
        return int(self._living.sum())

    @property
    def nbytes(self) -> int:
        columns = (self._page_of, *self._pool, self._alive)
        return sum(column.nbytes for column in columns if column is not None)

    def begin_reading(self) -> int:
        """Protects a reader: matches that are found and resolved before `end_reading`, which takes what this returns, are resolved
        correctly, whatever is removed meanwhile."""
        with self._lock:
            generation = self._generation
            self._readers[generation] = self._readers.get(generation, 0) + 1
        return generation

    def end_reading(self, generation: int) -> None:
        with self._lock:
            self._readers[generation] -= 1
            if not self._readers[generation]:
                del self._readers[generation]

    def put(self, numbers: NDArray[np.int64], ids: NDArray[Any], subscribers: NDArray[np.int32]) -> None:
        """Adds subscriptions with distinct numbers. To be called before they can be matched."""
        if not len(numbers):
            return
        self._make_room(numbers)
        if ids.dtype == object and self._pool.ids is None:
            self._keep_objects()
        records, known = self._pool
        pages, places = self._page_of[numbers >> BITS], numbers & (PAGE - 1)
        fresh = ~self._alive[pages, places]
        if known is None:
            records[pages, places, 0] = ids
        else:
            known[pages, places] = ids.astype(object)
        records[pages[fresh], places[fresh], 1] = subscribers[fresh]
        self._alive[pages, places] = True
        np.add.at(self._living, pages[fresh], 1)

    def drop(self, numbers: NDArray[np.int64]) -> None:
        """Removes subscriptions. To be called when they can no longer be matched. Unknown numbers are ignored."""
        numbers = numbers[self.known(numbers)]
        pages = self._page_of[numbers >> BITS]
        self._alive[pages, numbers & (PAGE - 1)] = False
        np.subtract.at(self._living, pages, 1)
        empty = np.unique(pages[self._living[pages] == 0]).tolist()
        if empty:
            with self._lock:
                self._retired.update(dict.fromkeys(empty, self._generation))
                self._generation += 1

    def known(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns a mask of the numbers that are present."""
        found = np.zeros(len(numbers), np.bool_)
        inside = np.flatnonzero(numbers >> BITS < len(self._page_of))
        pages = self._page_of[numbers[inside] >> BITS]
        inside, pages = inside[pages >= 0], pages[pages >= 0]
        found[inside] = self._alive[pages, numbers[inside] & (PAGE - 1)]
        return found

    def resolve(self, numbers: NDArray[np.int64], matches: NDArray[np.int32] | None = None) -> Known:
        """Returns the id and subscriber of each number. `matches` is added to the count of matches of each."""
        if not len(numbers):
            return NOBODY
        words, subscribers = np.empty(len(numbers), np.int64), np.empty(len(numbers), np.int32)
        matches = np.zeros(len(numbers), np.int32) if matches is None else matches
        records, ids = self._pool
        look_up(numbers, BITS, self._page_of, records, matches, words, subscribers)
        return Known(words if ids is None else ids.reshape(-1)[words], subscribers)

    def counts(self) -> MatchCounts:
        """Returns how often each subscription matched."""
        firsts = np.flatnonzero(self._page_of >= 0)
        pages = self._page_of[firsts]
        alive = self._alive[pages]
        numbers = (firsts[:, None] * PAGE + np.arange(PAGE))[alive]
        pool = self._pool
        records = pool.records[pages][alive]
        ids = records[:, 0] if pool.ids is None else pool.ids[pages][alive]
        return MatchCounts(numbers, ids, (records[:, 1] & LOW).astype(np.int32), records[:, 1] >> 32)

    def _keep_objects(self) -> None:
        """Switches to ids that are Python objects; the records then have their places."""
        records = self._pool.records.copy()
        ids = records[:, :, 0].astype(object)
        records[:, :, 0] = _places(len(records))
        self._pool = Pool(records, ids)

    def _make_room(self, numbers: NDArray[np.int64]) -> None:
        wanted = np.unique(numbers >> BITS)
        if wanted[-1] >= len(self._page_of):
            grown = np.full(max(2 * len(self._page_of), int(wanted[-1]) + 1), -1, np.int32)
            grown[: len(self._page_of)] = self._page_of
            self._page_of = grown
        self._reclaim()
        missing = wanted[self._page_of[wanted] < 0].tolist()
        if len(self._free) < len(missing):
            self._grow(len(missing) - len(self._free))
        for place in missing:
            page = self._free.pop()
            self._place_of[page] = place
            self._page_of[place] = page

    def _grow(self, more: int) -> None:
        """Copies everything to larger arrays. Readers continue with the old arrays."""
        before = len(self._living)
        after = before + max(more, before // 2)
        records, ids = self._pool
        self._place_of, self._alive = _grown(self._place_of, after), _grown(self._alive, after)
        self._living = _grown(self._living, after)
        records = _grown(records, after)
        if ids is not None:
            ids = _grown(ids, after)
            records[:, :, 0] = _places(after)
        self._pool = Pool(records, ids)
        self._free += range(before, after)

    def _reclaim(self) -> None:
        with self._lock:
            oldest = min(self._readers, default=self._generation)
            ready = [page for page, generation in self._retired.items() if generation < oldest]
            for page in ready:
                del self._retired[page]
        for page in ready:
            if not self._living[page]:  # otherwise one of its numbers has moved back from another shard
                self._page_of[self._place_of[page]] = -1
                self._free.append(page)


def _grown(column: NDArray[Any], pages: int) -> NDArray[Any]:
    grown = np.zeros((pages, *column.shape[1:]), column.dtype)
    grown[: len(column)] = column
    return grown


def _places(pages: int) -> NDArray[np.int64]:
    return np.arange(pages * PAGE).reshape(pages, PAGE)
