"""Deliveries that were stored together, in columns, with their events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from ray_pubsub.model.id_column import ids_of

__all__ = ["DELIVERY_BYTES", "Chunk", "merged"]

DELIVERY_BYTES = 64  # what a delivery counts for beside its event's content: its columns, and its share of a chunk


class Chunk:
    """A row per delivery, by ascending sequence number. An event's id, content and time are stored once, for all rows that deliver it.

    A row is live until it is settled: acknowledged, dropped, expired or purged. An event's content is released with its last live row.
    """

    __slots__ = (
        "contents",
        "enqueued",
        "event_ids",
        "events",
        "levels",
        "live",
        "live_rows",
        "references",
        "sequence",
        "subscribers",
        "subscriptions",
    )

    def __init__(
        self,
        sequence: NDArray[np.int64],
        subscribers: NDArray[np.int32],
        levels: NDArray[np.int16],
        subscriptions: NDArray[Any],
        events: NDArray[np.int32],
        event_ids: NDArray[Any],
        contents: list[bytes | None],
        enqueued: NDArray[np.float64],
    ) -> None:
        self.sequence = sequence
        self.subscribers = subscribers
        self.levels = levels
        self.subscriptions = subscriptions
        self.events = events
        self.event_ids = event_ids
        self.contents = contents
        self.enqueued = enqueued
        self.live = np.ones(len(sequence), bool)
        self.live_rows = len(sequence)
        one = len(events) == len(contents) == 1
        self.references = np.ones(1, np.int64) if one else np.bincount(events, minlength=len(contents))

    def __len__(self) -> int:
        return len(self.sequence)

    @property
    def first(self) -> int:
        """The chunk's name, for as long as it exists."""
        return int(self.sequence[0])

    def rows(self, sequence: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the rows of these deliveries, which must all be in this chunk."""
        without_gaps = int(self.sequence[-1]) - int(self.sequence[0]) + 1 == len(self.sequence)
        rows: NDArray[np.int64] = (
            sequence - self.sequence[0] if without_gaps else np.searchsorted(self.sequence, sequence)
        )
        return rows

    def has_live(self, sequence: int, subscriber: int) -> bool:
        row = int(np.searchsorted(self.sequence, sequence))
        return (
            row < len(self)
            and int(self.sequence[row]) == sequence
            and int(self.subscribers[row]) == subscriber
            and bool(self.live[row])
        )

    def settle(self, rows: NDArray[np.int64]) -> None:
        """Marks live rows as settled."""
        self.live[rows] = False
        self.live_rows -= len(rows)
        events = self.events[rows]
        np.subtract.at(self.references, events, 1)
        for event in events[self.references[events] == 0].tolist():
            self.contents[event] = None

    def sizes(self) -> NDArray[np.int64]:
        """Returns the accounted size of each row in its mailbox."""
        lengths = np.fromiter((len(content or b"") for content in self.contents), np.int64, len(self.contents))
        sizes: NDArray[np.int64] = lengths[self.events] + DELIVERY_BYTES
        return sizes

    def size_of_one(self) -> int:
        """Returns the accounted size of the only row."""
        return len(self.contents[int(self.events[0])] or b"") + DELIVERY_BYTES

    def pack(self) -> bytes:
        packed: bytes = msgpack.packb(
            (
                self.sequence.tobytes(),
                self.subscribers.tobytes(),
                self.levels.tobytes(),
                _pack_ids(self.subscriptions),
                self.events.tobytes(),
                _pack_ids(self.event_ids),
                self.contents,
                self.enqueued.tobytes(),
            )
        )
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> Chunk:
        sequence, subscribers, levels, subscriptions, events, event_ids, contents, enqueued = msgpack.unpackb(packed)
        return cls(
            np.frombuffer(sequence, np.int64),
            np.frombuffer(subscribers, np.int32),
            np.frombuffer(levels, np.int16),
            _unpack_ids(subscriptions),
            np.frombuffer(events, np.int32),
            _unpack_ids(event_ids),
            contents,
            np.frombuffer(enqueued, np.float64),
        )


def merged(chunks: Sequence[Chunk]) -> Chunk:
    """Merges the live rows of neighbouring chunks, and the events they need, into one chunk. There must be at least one live row."""
    kept = [np.flatnonzero(chunk.live) for chunk in chunks]
    needed = [np.flatnonzero(chunk.references) for chunk in chunks]
    events, before = [], 0
    for chunk, rows, used in zip(chunks, kept, needed, strict=True):
        events.append(np.searchsorted(used, chunk.events[rows]) + before)
        before += len(used)
    return Chunk(
        np.concatenate([chunk.sequence[rows] for chunk, rows in zip(chunks, kept, strict=True)]),
        np.concatenate([chunk.subscribers[rows] for chunk, rows in zip(chunks, kept, strict=True)]),
        np.concatenate([chunk.levels[rows] for chunk, rows in zip(chunks, kept, strict=True)]),
        _joined_ids([chunk.subscriptions[rows] for chunk, rows in zip(chunks, kept, strict=True)]),
        np.concatenate(events).astype(np.int32),
        _joined_ids([chunk.event_ids[used] for chunk, used in zip(chunks, needed, strict=True)]),
        [chunk.contents[event] for chunk, used in zip(chunks, needed, strict=True) for event in used.tolist()],
        np.concatenate([chunk.enqueued[used] for chunk, used in zip(chunks, needed, strict=True)]),
    )


def _joined_ids(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Joins arrays of ids. The result is int64 if all parts are; otherwise parts of int64 become Python's ints."""
    if all(part.dtype == np.int64 for part in parts):
        return np.concatenate(parts)
    return np.concatenate([part.astype(object) for part in parts])


def _pack_ids(ids: NDArray[Any]) -> bytes | list[Any]:
    return ids.tobytes() if ids.dtype == np.int64 else ids.tolist()


def _unpack_ids(packed: bytes | list[Any]) -> NDArray[Any]:
    if isinstance(packed, bytes):
        return np.frombuffer(packed, np.int64)
    column = np.empty(len(packed), object)
    column[:] = packed
    return column if len(packed) else ids_of(packed)
