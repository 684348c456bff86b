"""What a publication gave: the matches with their subscribers and priorities, in columns, and what became of the deliveries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ray_pubsub.errors import EventError, OverloadedError
from ray_pubsub.model.match_batch import MatchBatch, arrow_ids
from ray_pubsub.sharding.merging import unpacked_ids

__all__ = ["Delivered", "PublishResult"]


@dataclass(frozen=True, slots=True)
class Delivered:
    """What became of the matches: they are in mailboxes, or were there (the event was published before), or found the mailbox full."""

    delivered: int = 0
    duplicates: int = 0
    dead: int = 0
    dropped: int = 0
    rejected: int = 0
    rejected_subscribers: tuple[str | int, ...] = ()

    def __add__(self, other: Delivered) -> Delivered:
        names = tuple(dict.fromkeys((*self.rejected_subscribers, *other.rejected_subscribers)))
        return Delivered(
            self.delivered + other.delivered,
            self.duplicates + other.duplicates,
            self.dead + other.dead,
            self.dropped + other.dropped,
            self.rejected + other.rejected,
            names,
        )


@dataclass(slots=True, eq=False)
class PublishResult:
    """Event number i matches `subscription_ids[offsets[i]:offsets[i + 1]]`. `len()` is the number of matches. What a MatchBatch has this
    has too, and for every match its subscriber."""

    offsets: NDArray[np.int64]
    event_ids: NDArray[Any]
    levels: NDArray[np.uint8]
    """Per event, the number of its priority level."""
    level_names: tuple[str, ...]
    packed_ids: Any
    """Subscription ids as they travel; `subscription_ids` are the same."""
    subscriber_codes: NDArray[np.int32]
    names: dict[int, str]
    """The subscribers that occur, by code."""
    errors: list[EventError] = field(default_factory=list)
    deliveries: Delivered = field(default_factory=Delivered)

    def __len__(self) -> int:
        return len(self.subscriber_codes)

    def __repr__(self) -> str:
        bad = f", {len(self.errors)} bad events" if self.errors else ""
        full = f", {self.deliveries.rejected} not delivered" if self.deliveries.rejected else ""
        return f"PublishResult({len(self)} matches of {len(self.event_ids)} events{bad}{full})"

    def __getitem__(self, event: int) -> list[Any]:
        """The ids of the subscriptions that match the event at this position."""
        return self.matches()[event]

    @property
    def subscription_ids(self) -> NDArray[Any]:
        return unpacked_ids(self.packed_ids)

    @property
    def subscribers(self) -> NDArray[Any]:
        """Per match, the name of the subscriber."""
        if not len(self):
            return np.empty(0, object)
        names = np.full(int(self.subscriber_codes.max()) + 1, None, object)
        for code, name in self.names.items():
            names[code] = name
        found: NDArray[Any] = names[self.subscriber_codes]
        return found

    @property
    def priorities(self) -> NDArray[Any]:
        """Per event, the name of its level."""
        found: NDArray[Any] = np.array(self.level_names, object)[self.levels]
        return found

    def counts(self) -> NDArray[np.int64]:
        """Matches per event."""
        return np.diff(self.offsets)

    def pairs(self) -> Iterator[tuple[Any, Any]]:
        """(event id, subscription id), in the order of the events."""
        return self.matches().pairs()

    def matches(self) -> MatchBatch:
        """As MatchIndex.match_many gives it."""
        return MatchBatch(self.offsets, self.subscription_ids, self.event_ids, self.priorities, self.errors)

    def to_arrow(self) -> pa.Table:
        """event_id, subscription_id, subscriber, priority; a row for each match."""
        counts = self.counts()
        ids = (
            self.packed_ids if isinstance(self.packed_ids, pa.Array) else arrow_ids("subscription_id", self.packed_ids)
        )
        return pa.table(
            {
                "event_id": arrow_ids("event_id", np.repeat(self.event_ids, counts)),
                "subscription_id": ids,
                "subscriber": self._dictionary(),
                "priority": pa.DictionaryArray.from_arrays(
                    pa.array(np.repeat(self.levels, counts).astype(np.int32)), list(self.level_names)
                ).cast(pa.string()),
            }
        )

    def to_pandas(self) -> Any:
        """The same as a pandas DataFrame, which may hold ids of str and int side by side."""
        import pandas as pd

        counts = self.counts()
        return pd.DataFrame(
            {
                "event_id": np.repeat(self.event_ids, counts),
                "subscription_id": self.subscription_ids,
                "subscriber": self.subscribers,
                "priority": np.repeat(self.priorities, counts),
            }
        )

    def raise_if_rejected(self, retry_after: float = 1.0) -> None:
        """Raises OverloadedError if a mailbox was full. Publishing the same events again, by their ids, delivers only what was not."""
        found = self.deliveries
        if found.rejected:
            shown = ", ".join(map(repr, found.rejected_subscribers[:5]))
            raise OverloadedError(f"deliveries to {shown}", found.rejected, retry_after)

    @classmethod
    def joined(cls, parts: Sequence[PublishResult]) -> PublishResult:
        """The results of a publication that went in portions."""
        if len(parts) == 1:
            return parts[0]
        from ray_pubsub.model.id_column import ids_of

        offsets, errors, names, deliveries, event = [np.zeros(1, np.int64)], [], {}, Delivered(), 0
        for part in parts:
            offsets.append(part.offsets[1:] + offsets[-1][-1])
            errors += [error.at((error.position or 0) + event) for error in part.errors]
            names.update(part.names)
            deliveries += part.deliveries
            event += len(part.event_ids)
        columns = [part.subscription_ids for part in parts if len(part)]
        return cls(
            np.concatenate(offsets),
            ids_of(np.concatenate([part.event_ids for part in parts])),
            np.concatenate([part.levels for part in parts]),
            parts[0].level_names,
            np.concatenate(columns) if columns else np.empty(0, np.int64),
            np.concatenate([part.subscriber_codes for part in parts]),
            names,
            errors,
            deliveries,
        )

    def _dictionary(self) -> pa.Array:
        codes = np.array(sorted(self.names), np.int32)
        places = np.searchsorted(codes, self.subscriber_codes).astype(np.int32)
        names = pa.array([self.names[code] for code in codes.tolist()], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(places), names).cast(pa.string())
