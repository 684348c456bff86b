"""The deduplication window: the latest publications and events that were delivered, bounded by number and by bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Generic, NamedTuple, TypeVar

import msgpack
import numpy as np
from numpy.typing import NDArray

__all__ = [
    "EventEntries",
    "PublicationEntry",
    "PublishWindow",
    "Undelivered",
    "WindowEntries",
    "pack_events",
    "pairs_of",
    "unpack_events",
]

ENTRY_BYTES = 160
"""The bytes that an entry takes beside its key; measured, and the same for all."""

Value = TypeVar("Value")
EventEntries = list[tuple[Any, frozenset[int] | None]]
"""The keys of events, each with the subscribers whose full mailboxes rejected the event; None if there are none."""


class Undelivered(NamedTuple):
    """The rejected part of a publication. A full mailbox rejects nearly everything, so this is mostly one number for each mailbox."""

    subscribers: NDArray[np.int32]
    """The subscribers who received nothing of the publication."""
    pairs: NDArray[np.int64]
    """For the other subscribers, the events that they did not receive, as sorted `pairs_of` an event's row and a subscriber."""

    @property
    def nbytes(self) -> int:
        return self.subscribers.nbytes + self.pairs.nbytes

    def has(self, rows: NDArray[Any], subscribers: NDArray[Any]) -> NDArray[np.bool_]:
        """Returns a mask of the matches that are still to be delivered."""
        return np.isin(subscribers, self.subscribers) | np.isin(pairs_of(rows, subscribers), self.pairs)


class PublicationEntry(NamedTuple):
    """What is remembered of a publication under its idempotency key."""

    key: Any
    undelivered: Undelivered | None
    """None if everything was delivered."""

    def pack(self) -> bytes:
        left = None if self.undelivered is None else [column.tobytes() for column in self.undelivered]
        packed: bytes = msgpack.packb([self.key, left])
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> PublicationEntry:
        key, left = msgpack.unpackb(packed)
        if left is None:
            return cls(key, None)
        return cls(key, Undelivered(np.frombuffer(left[0], np.int32), np.frombuffer(left[1], np.int64)))


class WindowEntries(NamedTuple):
    """What is remembered of one batch, or of many."""

    publications: list[PublicationEntry]
    events: EventEntries


def pairs_of(rows: NDArray[Any], subscribers: NDArray[Any]) -> NDArray[np.int64]:
    """Packs row and subscriber into one number."""
    pairs: NDArray[np.int64] = (rows.astype(np.int64) << 32) | subscribers
    return pairs


def pack_events(entries: EventEntries) -> bytes:
    """Packs entries. Equal sets of subscribers are written once."""
    left: dict[frozenset[int], list[int]] = {}
    for place, (_, subscribers) in enumerate(entries):
        if subscribers:
            left.setdefault(subscribers, []).append(place)
    rejected = [(list(subscribers), np.array(places, np.int32).tobytes()) for subscribers, places in left.items()]
    packed: bytes = msgpack.packb({"keys": [key for key, _ in entries], "rejected": rejected})
    return packed


def unpack_events(packed: bytes) -> WindowEntries:
    """Unpacks entries. In rows of release 0.1, publications are among the events, and rejections are by subscription. Keys with
    rejections in such rows are forgotten: a repetition is then delivered to everybody, which is better than to nobody."""
    content = msgpack.unpackb(packed)
    if isinstance(content, list):
        whole = [key for key, rejected in content if rejected is None]
        publications = [PublicationEntry(key[0], None) for key in whole if isinstance(key, list)]
        return WindowEntries(publications, [(key, None) for key in whole if not isinstance(key, list)])
    left: list[frozenset[int] | None] = [None] * len(content["keys"])
    for subscribers, places in content["rejected"]:
        shared = frozenset(subscribers)
        for place in np.frombuffer(places, np.int32).tolist():
            left[place] = shared
    return WindowEntries([], list(zip(content["keys"], left, strict=True)))


class KeyWindow(Generic[Value]):
    """Keys by age, each with a value. Beyond `most` keys or `most_bytes` the oldest are forgotten, and a repetition of them is
    delivered."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self.bytes = 0
        # A dict would not do: finding its first entry takes time proportional to the entries that were deleted before it.
        self._entries: OrderedDict[Any, Value] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Any) -> bool:
        return key in self._entries

    def __getitem__(self, key: Any) -> Value:
        return self._entries[key]

    def put(self, key: Any, value: Value) -> None:
        if key in self._entries:
            self.bytes -= self._size(key, self._entries[key])
        self._entries[key] = value
        self._entries.move_to_end(key)
        self.bytes += self._size(key, value)
        while len(self._entries) > self._most or self.bytes > self._most_bytes:
            self.bytes -= self._size(*self._entries.popitem(last=False))

    def _size(self, key: Any, value: Any) -> int:
        size = ENTRY_BYTES + (8 if isinstance(key, int) else len(key))
        if isinstance(value, Undelivered):
            size += value.nbytes
        return size


class PublishWindow:
    """Publications and events, remembered separately: however many publications there are, the promised number of events is remembered."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self.publications: KeyWindow[Undelivered | None] = KeyWindow(most, most_bytes)
        self.events: KeyWindow[frozenset[int] | None] = KeyWindow(most, most_bytes)

    def record(self, entries: WindowEntries) -> None:
        for publication, undelivered in entries.publications:
            self.publications.put(publication, undelivered)
        for event, subscribers in entries.events:
            self.events.put(event, subscribers)
