"""The answers of several shards to one batch, as one answer.

Every shard answers for all events of the batch. An event's matches stand in the order of the shards as they are given, and within a
shard in the shard's own order. The answer of a single shard is passed on as it is, without a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ray_pubsub.errors import SettingError
from ray_pubsub.kernels.merged_matches import drop_repeated, place_matches

__all__ = ["ShardMatches", "chained", "merge_matches", "packed_ids", "unpacked_ids"]


@dataclass(frozen=True, slots=True, eq=False)
class ShardMatches:
    """Event i matches the subscriptions offsets[i]:offsets[i + 1]: per match an id, a subscriber's code and, where matches may come twice,
    a number. Ids are a numpy column, or an Arrow one of strings (`packed_ids`)."""

    offsets: NDArray[np.int64]
    ids: Any
    subscribers: NDArray[np.int32]
    numbers: NDArray[np.int64] | None = None

    @property
    def events(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def none(cls, events: int) -> ShardMatches:
        """No event has a match: what no shard need be asked for."""
        return cls(np.zeros(events + 1, np.int64), np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))


def merge_matches(shards: Sequence[ShardMatches], events: int, *, repeated: bool = False) -> ShardMatches:
    """All matches of all shards. `repeated`: while subscriptions move, one may come from two shards; of those the first counts, and all
    shards must give numbers."""
    for part in shards:
        if part.events != events:
            raise SettingError("merge", f"a shard answered for {part.events} events, not for the batch's {events}")
        if repeated and part.numbers is None:
            raise SettingError("merge", "a shard answered without numbers, so that repetitions cannot be told")
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
        first += len(part.subscribers)
    numbers = None
    if all(part.numbers is not None for part in shards):
        numbers = np.concatenate([part.numbers for part in shards if part.numbers is not None])
        if repeated and len(order):
            size = 1 << int(2 * counts.max() - 1).bit_length()
            keys, stamps = np.empty(size, np.int64), np.full(size, -1, np.int64)
            order = order[: drop_repeated(offsets, numbers, order, keys, stamps)]
        numbers = numbers[order]
    subscribers = np.concatenate([part.subscribers for part in shards])[order]
    return ShardMatches(offsets, _merged_ids([part.ids for part in shards], order), subscribers, numbers)


def chained(batches: Sequence[ShardMatches]) -> ShardMatches:
    """The matches of batches that followed one another, as of one batch."""
    ends = np.cumsum([0, *(int(batch.offsets[-1]) for batch in batches)])
    offsets = [batch.offsets[1:] + end for batch, end in zip(batches, ends.tolist(), strict=False)]
    return ShardMatches(
        np.concatenate([np.zeros(1, np.int64), *offsets]),
        _merged_ids([batch.ids for batch in batches], None),
        np.concatenate([np.empty(0, np.int32), *(batch.subscribers for batch in batches)]),
    )


def packed_ids(ids: NDArray[Any]) -> Any:
    """The same ids as a column that crosses processes as bytes: strings as Arrow's, so that nothing is done for each of them."""
    if ids.dtype != object:
        return ids
    try:
        return pa.array(ids, pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return ids  # ids of str and int beside each other have no Arrow type


def unpacked_ids(ids: Any) -> NDArray[Any]:
    """As a numpy column of ints or of Python's objects."""
    if isinstance(ids, np.ndarray):
        return ids
    unpacked: NDArray[Any] = ids.to_numpy(zero_copy_only=False)
    return unpacked


def _merged_ids(columns: list[Any], order: NDArray[np.int64] | None) -> Any:
    columns = [column for column in columns if len(column)]
    if columns and not any(isinstance(column, np.ndarray) for column in columns):
        joined = pa.concat_arrays(columns)
        return joined if order is None else joined.take(pa.array(order))
    # A column of ints beside one of objects becomes objects.
    ids = np.concatenate([unpacked_ids(column) for column in columns] or [np.empty(0, np.int64)])
    return ids if order is None else ids[order]
