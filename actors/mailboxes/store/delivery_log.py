"""The unsettled deliveries of all mailboxes, in chunks by ascending sequence number."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from actors.mailboxes.store.delivery_chunk import Chunk, merged

__all__ = ["DeliveryLog", "Facts", "Merge", "Settled"]

SMALL_ROWS = 512
"""A chunk with fewer live rows than this is merged with small neighbours."""
SMALL_CHUNKS = 32
"""This many small neighbours are merged into one, so that a row is rewritten at most SMALL_ROWS / SMALL_CHUNKS times."""
LARGEST_MERGED = 16_384
SPARSE = 4
"""A chunk is rewritten alone when fewer than one row in this many is live."""
SPARE_ROWS = 1024


class Facts(NamedTuple):
    """The subscriptions, event ids and contents of the requested deliveries, in the order of the request."""

    subscriptions: NDArray[Any]
    event_ids: NDArray[Any]
    contents: list[bytes | None]


class Settled(NamedTuple):
    """Rows of one chunk that were settled. `finished`: the chunk has no live rows left, and is gone."""

    chunk: int
    sequence: NDArray[np.int64]
    finished: bool


class Merge(NamedTuple):
    """Chunks, by name, that were replaced by one."""

    replaced: list[int]
    chunk: Chunk


class DeliveryLog:
    """The log of deliveries. A consumer that never settles keeps only its own deliveries here, because chunks are rewritten without
    their settled rows."""

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self._firsts: list[int] = []
        self._appended = 0  # chunks appended since all chunks were last examined
        self._rows = 0
        self._live_rows = 0
        self._newest = 0

    def __len__(self) -> int:
        return len(self._chunks)

    def __iter__(self) -> Iterator[Chunk]:
        return iter(self._chunks)

    def append(self, chunk: Chunk) -> None:
        self._chunks.append(chunk)
        self._firsts.append(chunk.first)
        self._appended += 1
        self._rows += len(chunk)
        self._live_rows += chunk.live_rows
        self._newest = max(self._newest, int(chunk.sequence[-1]))

    def facts(self, sequence: NDArray[np.int64]) -> Facts:
        parts = list(self._parts(sequence))
        if len(parts) == 1:
            chunk, _, rows = parts[0]
            events = chunk.events[rows]
            contents = [chunk.contents[event] for event in events.tolist()]
            return Facts(chunk.subscriptions[rows], chunk.event_ids[events], contents)
        whole = all(chunk.subscriptions.dtype == np.int64 for chunk, _, _ in parts)
        subscriptions = np.empty(len(sequence), np.int64 if whole else object)
        whole = all(chunk.event_ids.dtype == np.int64 for chunk, _, _ in parts)
        event_ids = np.empty(len(sequence), np.int64 if whole else object)
        contents = [None] * len(sequence)
        for chunk, places, rows in parts:
            events = chunk.events[rows]
            subscriptions[places] = chunk.subscriptions[rows]
            event_ids[places] = chunk.event_ids[events]
            for place, event in zip(places.tolist(), events.tolist(), strict=True):
                contents[place] = chunk.contents[event]
        return Facts(subscriptions, event_ids, contents)

    @property
    def newest(self) -> int:
        """The highest sequence number that was ever in the log."""
        return self._newest

    def of_subscriber(self, subscriber: int, after: float, up_to: float) -> Iterator[tuple[Chunk, NDArray[np.int64]]]:
        """Yields the live rows of one subscriber in a range of sequence numbers, chunk by chunk."""
        for chunk in self._chunks[max(0, bisect_right(self._firsts, after) - 1) :]:
            if chunk.first > up_to:
                return
            mine = chunk.live & (chunk.subscribers == subscriber) & (chunk.sequence > after) & (chunk.sequence <= up_to)
            rows = np.flatnonzero(mine)
            if len(rows):
                yield chunk, rows

    def has_live(self, sequence: int, subscriber: int) -> bool:
        at = bisect_right(self._firsts, sequence) - 1
        return at >= 0 and self._chunks[at].has_live(sequence, subscriber)

    def parts_of(self, sequence: Sequence[int]) -> list[tuple[int, NDArray[np.int64]]]:
        """Returns live deliveries, grouped by the name of the chunk they are in."""
        numbers = np.array(sequence, np.int64)
        return [(chunk.first, numbers[places]) for chunk, places, _ in self._parts(numbers)]

    def settle(self, sequence: Sequence[int]) -> list[Settled]:
        """Settles live deliveries. Returns the settled rows of each chunk."""
        numbers = np.array(sequence, np.int64)
        settled = []
        for chunk, places, rows in list(self._parts(numbers)):
            first = chunk.first
            chunk.settle(rows)
            if not chunk.live_rows:
                at = bisect_right(self._firsts, first) - 1
                del self._chunks[at], self._firsts[at]
                self._rows -= len(chunk)
            settled.append(Settled(first, numbers[places], not chunk.live_rows))
        self._live_rows -= len(numbers)
        return settled

    def tidy(self) -> list[Merge]:
        """Rewrites chunks that have become sparse or small. It does so only now and then, so that it costs next to nothing per delivery."""
        many = self._appended >= max(SMALL_CHUNKS, len(self._chunks) // 4)
        if not many and self._rows <= SPARSE * self._live_rows + SPARE_ROWS:
            return []
        self._appended = 0
        merges = []
        for start, stop in list(self._groups()):
            group = self._chunks[start:stop]
            sparse = sum(map(len, group)) > SPARSE * sum(chunk.live_rows for chunk in group)
            if len(group) >= SMALL_CHUNKS or sparse:
                merges.append((start, stop, merged(group)))
        for start, stop, chunk in reversed(merges):
            self._rows -= sum(map(len, self._chunks[start:stop])) - len(chunk)
            self._chunks[start:stop] = [chunk]
        replaced = [self._firsts[start:stop] for start, stop, _ in merges]
        self._firsts = [chunk.first for chunk in self._chunks]
        return [Merge(names, chunk) for names, (_, _, chunk) in zip(replaced, merges, strict=True)]

    def _groups(self) -> Iterator[tuple[int, int]]:
        """Yields groups of neighbours with few live rows, bounded in their total; every larger chunk is a group of its own."""
        start = rows = 0
        for at, chunk in enumerate(self._chunks):
            small = chunk.live_rows < SMALL_ROWS
            if start < at and (not small or rows + chunk.live_rows > LARGEST_MERGED):
                yield start, at
                start, rows = at, 0
            rows += chunk.live_rows
            if not small:
                yield at, at + 1
                start, rows = at + 1, 0
        if start < len(self._chunks):
            yield start, len(self._chunks)

    def _parts(self, sequence: NDArray[np.int64]) -> Iterator[tuple[Chunk, NDArray[np.int64], NDArray[np.int64]]]:
        """Yields chunk by chunk the positions of the deliveries that are in it, and their rows."""
        owners = np.searchsorted(np.array(self._firsts, np.int64), sequence, "right") - 1
        if len(owners) and (owners == owners[0]).all():
            chunk = self._chunks[int(owners[0])]
            yield chunk, np.arange(len(sequence)), chunk.rows(sequence)
            return
        order = np.argsort(owners, kind="stable")
        for places in np.split(order, np.flatnonzero(np.diff(owners[order])) + 1) if len(order) else ():
            chunk = self._chunks[int(owners[places[0]])]
            yield chunk, places, chunk.rows(sequence[places])
