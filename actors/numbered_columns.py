"""What a shard knows of its subscriptions by number: whose each is, the id its subscriber chose, how often it matched.

Numbers grow for ever and most die, so they are kept in pages, and a page in which nothing lives is given to other numbers. A reader
resolves the matches of a snapshot that may be older than the last removal: what a page says stays until the page is given away, and that
happens only when nobody reads any more who might ask (`reading`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.paged_lookup import look_up

__all__ = ["MatchCounts", "NumberedColumns"]

BITS = 10
PAGE = 1 << BITS
FIRST_PAGES = 16


class MatchCounts(NamedTuple):
    """Every subscription that there is, in columns; `matches` since it came to the shard."""

    numbers: NDArray[np.int64]
    ids: NDArray[Any]
    subscribers: NDArray[np.int32]
    matches: NDArray[np.int64]


class NumberedColumns:
    """One writer at a time; any number of readers."""

    def __init__(self) -> None:
        self._page_of = np.full(64, -1, np.int32)
        """The page that has the numbers from place * PAGE on, -1 for none."""
        self._place_of = np.full(FIRST_PAGES, -1, np.int64)
        self._subscriber = np.zeros((FIRST_PAGES, PAGE), np.int32)
        self._id: NDArray[Any] = np.zeros((FIRST_PAGES, PAGE), np.int64)
        self._matches = np.zeros((FIRST_PAGES, PAGE), np.int64)
        self._alive = np.zeros((FIRST_PAGES, PAGE), np.bool_)
        self._living = np.zeros(FIRST_PAGES, np.int64)
        self._free = list(range(FIRST_PAGES))
        self._retired: list[tuple[int, int]] = []
        """Pages without life, and the generation of readers that may still ask for them."""
        self._lock = threading.Lock()
        self._generation = 0
        self._readers: dict[int, int] = {}

    def __len__(self) -> int:
        return int(self._living.sum())

    @property
    def nbytes(self) -> int:
        columns = (self._page_of, self._subscriber, self._id, self._matches, self._alive)
        return sum(column.nbytes for column in columns)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """What is matched and resolved within is resolved rightly, whatever is removed meanwhile."""
        with self._lock:
            generation = self._generation
            self._readers[generation] = self._readers.get(generation, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                self._readers[generation] -= 1
                if not self._readers[generation]:
                    del self._readers[generation]

    def put(self, numbers: NDArray[np.int64], ids: NDArray[Any], subscribers: NDArray[np.int32]) -> None:
        """To be called before the subscriptions can be matched; the numbers differ."""
        if not len(numbers):
            return
        self._make_room(numbers)
        if ids.dtype != self._id.dtype:
            self._id, ids = self._id.astype(object), ids.astype(object)
        pages, places = self._page_of[numbers >> BITS], numbers & (PAGE - 1)
        fresh = ~self._alive[pages, places]
        self._subscriber[pages, places] = subscribers
        self._id[pages, places] = ids
        self._matches[pages[fresh], places[fresh]] = 0
        self._alive[pages, places] = True
        np.add.at(self._living, pages[fresh], 1)

    def drop(self, numbers: NDArray[np.int64]) -> None:
        """To be called when the subscriptions can no longer be matched. Numbers that are not here are passed over."""
        numbers = numbers[self.known(numbers)]
        pages = self._page_of[numbers >> BITS]
        self._alive[pages, numbers & (PAGE - 1)] = False
        np.subtract.at(self._living, pages, 1)
        empty = np.unique(pages[self._living[pages] == 0]).tolist()
        if empty:
            with self._lock:
                self._retired += [(page, self._generation) for page in empty]
                self._generation += 1

    def known(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these are here."""
        found = np.zeros(len(numbers), np.bool_)
        inside = np.flatnonzero(numbers >> BITS < len(self._page_of))
        pages = self._page_of[numbers[inside] >> BITS]
        inside, pages = inside[pages >= 0], pages[pages >= 0]
        found[inside] = self._alive[pages, numbers[inside] & (PAGE - 1)]
        return found

    def resolve(self, numbers: NDArray[np.int64], counted: bool = True) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Ids and subscribers; `counted`: as a match of each."""
        subscribers, places = np.empty(len(numbers), np.int32), np.empty(len(numbers), np.int64)
        look_up(numbers, BITS, self._page_of, self._subscriber, self._matches, int(counted), subscribers, places)
        return self._id.reshape(-1)[places], subscribers

    def counts(self) -> MatchCounts:
        """How often each subscription matched."""
        firsts = np.flatnonzero(self._page_of >= 0)
        pages = self._page_of[firsts]
        alive = self._alive[pages]
        numbers = (firsts[:, None] * PAGE + np.arange(PAGE))[alive]
        return MatchCounts(numbers, self._id[pages][alive], self._subscriber[pages][alive], self._matches[pages][alive])

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
        """New arrays with the old content: a reader goes on with those it has."""
        before = len(self._living)
        after = before + max(more, before // 2)
        for name in ("_place_of", "_subscriber", "_id", "_matches", "_alive", "_living"):
            old = getattr(self, name)
            grown = np.zeros((after, *old.shape[1:]), old.dtype)
            grown[:before] = old
            setattr(self, name, grown)
        self._free += range(before, after)

    def _reclaim(self) -> None:
        with self._lock:
            oldest = min(self._readers, default=self._generation)
            ready = {page for page, generation in self._retired if generation < oldest}
            self._retired = [(page, generation) for page, generation in self._retired if generation >= oldest]
        for page in ready:
            if not self._living[page]:  # else a number of it has come back from another shard
                self._page_of[self._place_of[page]] = -1
                self._free.append(page)
