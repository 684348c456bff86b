"""Joins and splits Spark's Arrow batches into portions that are large enough for a call and not too large."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import pyarrow as pa

from ray_pubsub.errors import TableError

__all__ = ["Portions", "by_halves"]

Read = TypeVar("Read")

MATCHES_AT_MOST = 1 << 21
"""The most matches of one portion, whose result is held in memory at once."""
LEAST_ROWS = 64
BYTES_AT_MOST = 1 << 25
"""The most bytes of one portion, unless a single row has more: several portions are in flight at once, and rows may have any size."""


class Portions:
    """Portions of about `rows` rows. A batch of about that size is passed on as it is, a larger one is split evenly, and small ones are
    joined. If rows are long, a portion has fewer of them."""

    def __init__(self, batches: Iterable[Any], rows: int) -> None:
        self._batches = batches
        self._most = self._rows = rows

    def __iter__(self) -> Iterator[Any]:
        small: list[Any] = []
        waiting = size = 0
        for batch in self._batches:
            if small and size + batch.nbytes > BYTES_AT_MOST:  # joining them would copy rows that are split again
                yield from self._cut(_joined(small))
                small, waiting, size = [], 0, 0
            if batch.num_rows:
                small.append(batch)
                waiting += batch.num_rows
                size += batch.nbytes
            if 2 * waiting >= self._rows or 2 * size >= BYTES_AT_MOST:
                yield from self._cut(_joined(small))
                small, waiting, size = [], 0, 0
        if small:
            yield from self._cut(_joined(small))

    def saw(self, rows: int, matches: int) -> None:
        """Reports the matches of a portion: if events match very many subscriptions, the next portions are smaller."""
        if rows:
            fitting = MATCHES_AT_MOST * rows // max(matches, 1)
            self._rows = max(LEAST_ROWS, min(self._most, fitting))

    def _cut(self, batch: Any) -> Iterator[Any]:
        start = 0
        while start < batch.num_rows:
            left = batch.num_rows - start
            parts = max(1, round(left / self._rows))  # computed each time, because the size may have changed
            size = -(-left // parts)
            while size > 1 and batch.slice(start, size).nbytes > BYTES_AT_MOST:
                size = -(-size // 2)
            yield batch.slice(start, size)
            start += size


def by_halves(read: Callable[[Any], Read], events: Any, start: int = 0) -> Iterator[tuple[int, Any, Read | TableError]]:
    """Reads a batch with `read`; yields parts with their first position. A batch that cannot be read as a whole (the keys of two maps can
    give one attribute) is halved until only the bad rows are rejected."""
    try:
        yield start, events, read(events)
    except TableError as error:
        size = events.num_rows
        if size == 1:
            yield start, events, error
        else:
            yield from by_halves(read, events.slice(0, size // 2), start)
            yield from by_halves(read, events.slice(size // 2), start + size // 2)


def _joined(batches: list[Any]) -> Any:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
