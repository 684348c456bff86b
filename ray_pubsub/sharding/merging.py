"""Merges the answers of several shards to one batch.

Every shard answers for all events of the batch. An event's matches are in the order in which the shards are given, and within a shard
in the shard's own order. The answer of a single shard is passed on as it is, without a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ray_pubsub.errors import SettingError
from ray_pubsub.kernels.sharding.merged_matches import drop_repeated, mark_codes, place_matches

FEW = 16
"""Up to this number of subscribers a set is made in less time than a mask."""

__all__ = ["ShardMatches", "chained", "merge_matches", "packed_ids", "subscribers_of", "unpacked_ids"]


@dataclass(slots=True, eq=False)  # not frozen: to make one that is takes three times as long
class ShardMatches:
    """Event i matches places[offsets[i]:offsets[i + 1]]: positions in the columns of subscriptions, which have an id, a subscriber's code
    and, where matches may be reported twice, a number. A subscription may occur once for all events of the batch that match it, or
    several times. Ids are a numpy column, or an Arrow column of strings (`packed_ids`)."""

    offsets: NDArray[np.int64]
    places: NDArray[Any]
    ids: Any
    subscribers: NDArray[np.int32]
    numbers: NDArray[np.int64] | None = None

    def __reduce__(self) -> Any:
        """Returns the state that a dataclass would have, but faster."""
        return ShardMatches, (self.offsets, self.places, self.ids, self.subscribers, self.numbers)

    def __len__(self) -> int:
        """How many matches there are."""
        return len(self.places)

    @property
    def events(self) -> int:
        return len(self.offsets) - 1

    @property
    def match_ids(self) -> Any:
        """The subscription's id of each match."""
        return self.ids[self.places] if isinstance(self.ids, np.ndarray) else self.ids.take(pa.array(self.places))

    @property
    def match_subscribers(self) -> NDArray[np.int32]:
        """The subscriber's code of each match."""
        found: NDArray[np.int32] = self.subscribers[self.places]
        return found

    @classmethod
    def each(
        cls,
        offsets: NDArray[np.int64],
        ids: Any,
        subscribers: NDArray[np.int32],
        numbers: NDArray[np.int64] | None = None,
    ) -> ShardMatches:
        """Returns the same with one entry in the columns for every match."""
        return cls(offsets, np.arange(len(subscribers), dtype=np.int32), ids, subscribers, numbers)

    @classmethod
    def none(cls, events: int) -> ShardMatches:
        """Returns the answer without any match, for batches that need not visit any shard."""
        return cls.each(
            np.zeros(events + 1, np.int64), np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int64)
        )


def merge_matches(shards: Sequence[ShardMatches], events: int, *, repeated: bool = False) -> ShardMatches:
    """Returns all matches of all shards. With `repeated`, a subscription that is being moved may be in the answers of two shards: the
    first one counts, and all shards must give numbers."""
    for part in shards:
        if part.events != events:
            raise SettingError("merge", f"a shard answered for {part.events} events, not for the batch's {events}")
        if repeated and part.numbers is None:
            raise SettingError("merge", "a shard answered without numbers, so repetitions cannot be recognised")
    if not shards:
        return ShardMatches.none(events)
    if len(shards) == 1:
        return shards[0]
    counts = sum((np.diff(part.offsets) for part in shards), np.zeros(events, np.int64))
    offsets = np.zeros(events + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    cursor, order = offsets[:-1].copy(), np.empty(int(offsets[-1]), np.int64)
    first = 0
    for part in shards:
        place_matches(part.offsets, first, cursor, order)
        first += len(part)
    joined = _joined(shards)
    if repeated and len(order):
        assert joined.numbers is not None
        size = 1 << int(2 * counts.max() - 1).bit_length()
        keys, stamps = np.empty(size, np.int64), np.full(size, -1, np.int64)
        order = order[: drop_repeated(offsets, joined.numbers[joined.places], order, keys, stamps)]
    return replace(joined, offsets=offsets, places=joined.places[order])


def subscribers_of(parts: Sequence[ShardMatches]) -> NDArray[np.int32]:
    """Returns the codes of the subscribers that occur, each once, ascending."""
    if sum([len(part.subscribers) for part in parts]) <= FEW:
        return np.array(sorted({code for part in parts for code in part.subscribers.tolist()}), np.int32)
    most = max((int(part.subscribers.max()) for part in parts if len(part.subscribers)), default=-1)
    used = np.zeros(most + 1, np.bool_)
    for part in parts:
        mark_codes(part.subscribers, used)
    return np.flatnonzero(used).astype(np.int32)


def chained(batches: Sequence[ShardMatches]) -> ShardMatches:
    """Returns the matches of consecutive batches, as those of one batch."""
    ends = np.cumsum([0, *(int(batch.offsets[-1]) for batch in batches)])
    offsets = [batch.offsets[1:] + end for batch, end in zip(batches, ends.tolist(), strict=False)]
    return replace(_joined(batches), offsets=np.concatenate([np.zeros(1, np.int64), *offsets]))


def _joined(parts: Sequence[ShardMatches]) -> ShardMatches:
    """Concatenates subscriptions and matches; the offsets are not valid."""
    before = np.cumsum([0, *(len(part.subscribers) for part in parts)]).tolist()
    places = [part.places.astype(np.int32) + np.int32(first) for part, first in zip(parts, before, strict=False)]
    numbers = [part.numbers for part in parts if part.numbers is not None]
    return ShardMatches(
        np.zeros(1, np.int64),
        np.concatenate([np.empty(0, np.int32), *places]),
        _joined_ids([part.ids for part in parts]),
        np.concatenate([np.empty(0, np.int32), *(part.subscribers for part in parts)]),
        np.concatenate([np.empty(0, np.int64), *numbers]) if len(numbers) == len(parts) else None,
    )


def packed_ids(ids: NDArray[Any]) -> Any:
    """Returns the same ids in a form that crosses processes as bytes, without work for each id: strings become an Arrow column."""
    if ids.dtype != object:
        return ids
    try:
        return pa.array(ids, pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return ids  # a mixture of str and int has no Arrow type


def unpacked_ids(ids: Any) -> NDArray[Any]:
    """Returns the ids as a numpy column of ints or of Python objects."""
    if isinstance(ids, np.ndarray):
        return ids
    unpacked: NDArray[Any] = ids.to_numpy(zero_copy_only=False)
    return unpacked


def _joined_ids(columns: list[Any]) -> Any:
    columns = [column for column in columns if len(column)]
    if columns and not any(isinstance(column, np.ndarray) for column in columns):
        return pa.concat_arrays(columns)
    # A column of ints beside one of objects becomes objects.
    return np.concatenate([unpacked_ids(column) for column in columns] or [np.empty(0, np.int64)])
