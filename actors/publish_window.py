"""Which publications were delivered: the latest so many, so that a repetition is told from news."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from typing import Any

import msgpack

__all__ = ["PublishWindow", "WindowEntries", "pack_entries", "unpack_entries"]

WindowEntries = list[tuple[Any, frozenset[Any] | None]]
"""Keys, each with what of its matches was not delivered, None if all were. A key of a whole batch is a tuple of itself."""


class PublishWindow:
    """Keys by age. Bounded: beyond `size` the oldest is forgotten, and a repetition of it would be delivered."""

    def __init__(self, size: int) -> None:
        self._size = size
        # Not a dict: to find the first of a dict takes the time of all that were before it.
        self._entries: OrderedDict[Any, frozenset[Any] | None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Any) -> bool:
        return key in self._entries

    def undelivered(self, key: Any) -> Collection[Any]:
        """Of a known key: the matches that are still to be delivered."""
        return self._entries[key] or ()

    def record(self, entries: Iterable[tuple[Any, frozenset[Any] | None]]) -> None:
        for key, undelivered in entries:
            self._entries[key] = undelivered
            self._entries.move_to_end(key)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)


def pack_entries(entries: WindowEntries) -> bytes:
    packed: bytes = msgpack.packb(
        [
            [list(key) if isinstance(key, tuple) else key, None if undelivered is None else list(undelivered)]
            for key, undelivered in entries
        ]
    )
    return packed


def unpack_entries(packed: bytes) -> WindowEntries:
    return [
        (
            tuple(key) if isinstance(key, list) else key,
            None if undelivered is None else frozenset(_plain(match) for match in undelivered),
        )
        for key, undelivered in msgpack.unpackb(packed)
    ]


def _plain(match: Any) -> Any:
    """A match of a whole batch is an event's row and a subscription."""
    return tuple(match) if isinstance(match, list) else match
