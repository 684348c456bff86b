"""What a publication gave: the matches with their subscribers and priorities, in columns, and what became of the deliveries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actors.stored_batch import Stored
from ray_pubsub.errors import EventError, OverloadedError, counted
from ray_pubsub.kernels.merged_matches import mark_codes
from ray_pubsub.model.match_batch import MatchBatch, arrow_ids
from ray_pubsub.sharding.merging import ShardMatches, chained, merge_matches, unpacked_ids

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

    def __reduce__(self) -> Any:
        """As a dataclass's state, only quicker."""
        return Delivered, (
            self.delivered, self.duplicates, self.dead, self.dropped, self.rejected, self.rejected_subscribers,
        )  # fmt: skip

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
    has too, and for every match its subscriber. The shards' answers are merged when they are first looked at."""

    event_ids: NDArray[Any]
    levels: NDArray[np.uint8]
    """Per event, the number of its priority level."""
    level_names: tuple[str, ...]
    parts: list[Any]
    """What each shard answered for the good events (`sharding.merging.ShardMatches`)."""
    positions: NDArray[np.int64] | None = None
    """Of the good events among all; None if all are good."""
    repeated: bool = False
    """A match may be in two parts; it counts once."""
    errors: list[EventError] = field(default_factory=list)
    deliveries: Delivered = field(default_factory=Delivered)
    names: dict[int, str] | None = None
    naming: Any = None
    """Finds names by code, if they are not in `names`."""
    lineage: str = ""
    """Of the server's data: what the subscribers' numbers mean."""
    _merged: ShardMatches | None = None
    _ids: NDArray[Any] | None = None

    def __len__(self) -> int:
        if self._merged is None and (not self.repeated or any(isinstance(part, Stored) for part in self.parts)):
            return sum(part.count if isinstance(part, Stored) else len(part) for part in self.parts)
        return len(self._all())

    def __repr__(self) -> str:
        found, published = counted(len(self), "match", "matches"), counted(len(self.event_ids), "event")
        bad = f", {counted(len(self.errors), 'bad event')}" if self.errors else ""
        full = f", {self.deliveries.rejected:,} not delivered" if self.deliveries.rejected else ""
        return f"PublishResult({found} of {published}{bad}{full})"

    def __getitem__(self, event: int) -> list[Any]:
        """The ids of the subscriptions that match the event at this position."""
        return self.matches()[event]

    def __reduce__(self) -> Any:
        """Without what only this process can do, and what follows from the rest."""
        return PublishResult, (
            self.event_ids, self.levels, self.level_names, self.parts, self.positions, self.repeated, self.errors,
            self.deliveries, self.names, None, self.lineage,
        )  # fmt: skip

    def fetch(self, fetched: Callable[[Stored], ShardMatches]) -> None:
        """Brings what is still in the object store."""
        self.parts = [fetched(part) if isinstance(part, Stored) else part for part in self.parts]

    @property
    def offsets(self) -> NDArray[np.int64]:
        return self._all().offsets

    @property
    def packed_ids(self) -> Any:
        """Subscription ids as they travel: numbers, or strings as Arrow has them. `subscription_ids` are the same."""
        return self._all().match_ids

    @property
    def subscription_ids(self) -> NDArray[Any]:
        if self._ids is None:
            merged = self._all()
            self._ids = unpacked_ids(merged.ids)[merged.places]
        return self._ids

    @property
    def subscriber_codes(self) -> NDArray[np.int32]:
        """Per match, the server's number of the subscriber."""
        return self._all().match_subscribers

    @property
    def subscribers(self) -> NDArray[Any]:
        """Per match, the name of the subscriber."""
        found: NDArray[Any] = np.array(self._owners(), object)[self._all().places]
        return found

    @property
    def priorities(self) -> NDArray[Any]:
        """Per event, the name of its level."""
        found: NDArray[Any] = np.array(self.level_names, object)[self.levels]
        return found

    def codes(self) -> NDArray[np.int32]:
        """The subscribers that occur, ascending."""
        most = max((int(part.subscribers.max()) for part in self.parts if len(part.subscribers)), default=-1)
        used = np.zeros(most + 1, np.bool_)
        for part in self.parts:
            mark_codes(part.subscribers, used)
        return np.flatnonzero(used).astype(np.int32)

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
        ids = self.packed_ids
        return pa.table(
            {
                "event_id": arrow_ids("event_id", np.repeat(self.event_ids, self.counts())),
                "subscription_id": ids if isinstance(ids, pa.Array) else arrow_ids("subscription_id", ids),
                "subscriber": self.arrow_subscribers(),
                "priority": self.arrow_priorities(),
            }
        )

    def arrow_subscribers(self) -> pa.Array:
        """Per match, the name of the subscriber, as a column of Arrow."""
        return pa.array(self._owners(), pa.string()).take(pa.array(self._all().places))

    def arrow_priorities(self) -> pa.Array:
        """Per match, the name of the event's level, as a column of Arrow."""
        levels = pa.array(np.repeat(self.levels, self.counts()).astype(np.int32))
        return pa.DictionaryArray.from_arrays(levels, list(self.level_names)).cast(pa.string())

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

    def raise_if_bad(self) -> None:
        """Raises the EventError of the first event that could not be used; the others are published all the same."""
        if self.errors:
            raise self.errors[0]

    @classmethod
    def joined(cls, results: Sequence[PublishResult]) -> PublishResult:
        """The results of a publication that went in portions."""
        if len(results) == 1:
            return results[0]
        errors: list[EventError] = []
        deliveries, event = Delivered(), 0
        for result in results:
            errors += [error.at((error.position or 0) + event) for error in result.errors]
            deliveries += result.deliveries
            event += len(result.event_ids)
        return cls(
            np.concatenate([result.event_ids for result in results]),
            np.concatenate([result.levels for result in results]),
            results[0].level_names,
            [chained([result._all() for result in results])],
            errors=errors,
            deliveries=deliveries,
            naming=results[0].naming,
            lineage=results[0].lineage,
        )

    def _all(self) -> ShardMatches:
        if self._merged is None:
            good = len(self.event_ids) if self.positions is None else len(self.positions)
            merged = merge_matches(self.parts, good, repeated=self.repeated and len(self.parts) > 1)
            if self.positions is not None:
                counts = np.zeros(len(self.event_ids), np.int64)
                counts[self.positions] = np.diff(merged.offsets)
                merged = replace(merged, offsets=np.concatenate([[0], np.cumsum(counts)]))
            self._merged = merged
        return self._merged

    def _owners(self) -> list[str]:
        """The names of the subscribers, for every subscription that occurs."""
        known = self._names(self.codes())
        return [known[code] for code in self._all().subscribers.tolist()]

    def _names(self, codes: NDArray[np.int32]) -> dict[int, str]:
        if self.names is None:
            self.names = {} if self.naming is None or not len(codes) else self.naming(self.lineage, codes)
        return self.names
