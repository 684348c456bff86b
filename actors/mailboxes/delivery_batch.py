"""The input of the mailboxes, the matches of a published batch in columns; and their report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.errors import OverloadedError, SettingError
from ray_pubsub.model.id_column import ids_of

__all__ = ["DeliverReport", "DeliveryBatch", "PublishKey"]

PublishKey = str | int | bytes


@dataclass(slots=True, eq=False)
class DeliveryBatch:
    """The matches of a batch. A row per match names the event of the batch, the subscription, the subscriber and the level; the other
    fields have an entry per event.

    Keys identify what was published: matches under a key that was delivered before are not delivered again. `keys` has one per event, which
    may be None. `key` is one for all events of the batch, for a publisher that repeats batches unchanged. All matches of an event must come
    in one batch: whatever comes later under its key is a repetition. `contents` are dicts, packed events (`event_content`), or None.
    """

    event_rows: NDArray[np.integer[Any]]
    subscription_ids: Any
    """An array or a list."""
    subscribers: NDArray[np.integer[Any]]
    levels: NDArray[np.integer[Any]]
    event_ids: Any
    contents: Sequence[Mapping[str, Any] | bytes | None] | None = None
    keys: Sequence[PublishKey | None] | None = None
    key: PublishKey | None = None
    age: float = 0.0
    """The seconds since publication. Deadlines and the on-time rate count from then."""

    def __len__(self) -> int:
        return len(self.event_rows)

    def checked(self, levels: int) -> DeliveryBatch:
        """Returns the batch with columns as arrays. Raises SettingError."""
        rows = len(self.event_rows)
        batch = DeliveryBatch(
            _whole("event_rows", self.event_rows, np.int64, rows),
            ids_of(self.subscription_ids),
            _whole("subscribers", self.subscribers, np.int32, rows),
            _whole("levels", self.levels, np.int16, rows),
            ids_of(self.event_ids),
            self.contents,
            self.keys,
            self.key,
            self.age,
        )
        events = len(batch.event_ids)
        _bounded("event_rows", batch.event_rows, events)
        _bounded("levels", batch.levels, levels)
        _bounded("subscribers", batch.subscribers, 2**31)
        _same_length("subscription_ids", batch.subscription_ids, rows, "matches")
        for name in ("contents", "keys"):
            if getattr(batch, name) is not None:
                _same_length(name, getattr(batch, name), events, "events")
        for key in (batch.key, *(batch.keys or ())):
            if key is not None and type(key) not in (str, int, bytes):
                raise SettingError("keys", f"must be str, int, bytes or None, not {key!r}")
        return batch


@dataclass(frozen=True, slots=True, eq=False)
class DeliverReport:
    """The outcome of a batch. Each match was delivered, became a dead letter, was rejected or is a duplicate; `dropped` counts
    deliveries that made room for them."""

    delivered: int
    """The number of matches that are in their mailboxes, on disk if there is a store."""
    duplicates: int
    dead: int
    """The number of matches that found their mailbox full and became dead letters, with overflow "dead-letter"."""
    dropped: int
    """The number of deliveries, of this batch or of earlier ones, that were dropped from full mailboxes."""
    rejected: NDArray[np.int64]
    """The positions in the batch of the matches whose mailbox was full. Delivering the same batch again attempts these again, and only
    these."""
    rejected_subscribers: tuple[str | int, ...]
    waiting: int
    """The number of deliveries in the mailboxes that rejected some."""

    def raise_if_rejected(self, retry_after: float = 1.0) -> None:
        if len(self.rejected):
            shown = ", ".join(map(repr, self.rejected_subscribers[:5]))
            more = ", …" if len(self.rejected_subscribers) > 5 else ""
            raise OverloadedError(f"deliveries to {shown}{more}", self.waiting, retry_after)


def _whole(name: str, column: Any, kind: Any, rows: int) -> NDArray[Any]:
    array = np.asarray(column)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise SettingError(name, "must be a column of whole numbers")
    _same_length(name, array, rows, "matches")
    if not np.can_cast(array.dtype, kind):
        info = np.iinfo(kind)
        if len(array) and not info.min <= int(array.min()) <= int(array.max()) <= info.max:
            raise SettingError(name, f"must be numbers of {info.bits} bits")
    return array.astype(kind, copy=False)


def _same_length(name: str, column: Any, rows: int, what: str) -> None:
    if len(column) != rows:
        raise SettingError(name, f"there are {len(column):,} for {rows:,} {what}")


def _bounded(name: str, column: NDArray[Any], end: int) -> None:
    if len(column) == 1 and 0 <= int(column[0]) < end:  # for a single value numpy is slower than Python
        return
    if len(column) and not 0 <= int(column.min()) <= int(column.max()) < end:
        raise SettingError(name, f"must be numbers from 0 to {end - 1:,}")
