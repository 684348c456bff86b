"""Entries that were put together and differ only in their items and sizes: one object for all of them while they wait."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

from actors.mailboxes.queue.entries import Waiting

__all__ = ["Run"]


class Run:
    """An element of a line in place of its entries. Indexed like an entry, it is its first entry; entries become tuples as they leave.

    `items` is not copied: a range of numbers costs the same for a million entries as for one.
    """

    __slots__ = ("_due", "_enqueued", "_items", "_level", "_order", "_sizes", "_taken")

    def __init__(
        self, order: int, enqueued: float, due: float, sizes: Sequence[int] | int, level: int, items: Sequence[Any]
    ) -> None:
        self._order = order
        self._enqueued = enqueued
        self._due = due
        self._sizes = sizes
        self._level = level
        self._items = items
        self._taken = 0

    def __len__(self) -> int:
        return len(self._items) - self._taken

    def __getitem__(self, field: int) -> Any:
        return self._entry(self._taken)[field]

    def take(self, count: int) -> list[Waiting]:
        """Removes and returns up to `count` entries from the front."""
        start, stop = self._taken, min(self._taken + count, len(self._items))
        self._taken = stop
        sizes = self._sizes
        return list(
            zip(
                range(self._order + start, self._order + stop),
                repeat(self._enqueued),
                repeat(self._due),
                repeat(sizes) if isinstance(sizes, int) else sizes[start:stop],
                repeat(self._level),
                self._items[start:stop],
                strict=False,  # repeat is endless
            )
        )

    def _entry(self, at: int) -> Waiting:
        size = self._sizes if isinstance(self._sizes, int) else self._sizes[at]
        return self._order + at, self._enqueued, self._due, size, self._level, self._items[at]
