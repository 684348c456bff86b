"""The result of a publication: its matches in columns, with subscribers and priorities, and the outcome of the deliveries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actors.transport.publish_reply import Delivered, PublishReply
from actors.transport.published_events import MOST_WARNINGS, PublishedEvents
from ray_pubsub.errors import EventError, OverloadedError, counted
from ray_pubsub.model.match_batch import MatchBatch, arrow_ids, object_column
from ray_pubsub.model.metadata import Lookup, Metadata, data_of, distinct_data, metadata_columns, tags_of
from ray_pubsub.sharding.merging import ShardMatches, chained, merge_matches, subscribers_of, unpacked_ids

__all__ = ["PublishResult"]


@dataclass(slots=True, eq=False)
class PublishResult:
    """The result of a publication. Event number i matches `subscription_ids[offsets[i]:offsets[i + 1]]`; `len()` is the number of
    matches. It has all that a MatchBatch has, and the subscriber of every match. The shards' answers are merged on first use."""

    event_ids: NDArray[Any]
    levels: NDArray[np.uint8]
    """The number of each event's priority level."""
    level_names: tuple[str, ...]
    parts: list[Any]
    """The answer of each shard for the good events (`sharding.merging.ShardMatches`)."""
    positions: NDArray[np.int64] | None = None
    """The positions of the good events among all events; None if all are good."""
    errors: list[EventError] = field(default_factory=list)
    """One error for each event that could not be used."""
    deliveries: Delivered = field(default_factory=Delivered)
    names: dict[int, str] | None = None
    naming: Any = None
    """Finds subscribers' names by their codes when `names` is None."""
    lineage: str = ""
    """The lineage of the server's data, for which the subscribers' codes are valid."""
    idempotency_key: str | None = None
    """The idempotency key of this publication. Publishing the same events again under it delivers only what was not delivered before."""
    moment: int | None = None
    """The value of now() for all events, in microseconds since 1970. A publication in several portions reports that of the first
    portion."""
    lookup: Lookup | None = None
    """Finds the data and tags of subscriptions; only available in the process that published."""
    warnings: list[EventError] = field(default_factory=list)
    """The attributes that were left out of events because their values cannot be used; at most the first hundred."""
    warning_count: int = 0
    """The number of attributes that were left out."""
    _merged: ShardMatches | None = None
    _ids: NDArray[Any] | None = None
    _carried: dict[Any, Metadata | None] | None = None

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __repr__(self) -> str:
        found, published = counted(len(self), "match", "matches"), counted(len(self.event_ids), "event")
        bad = f", {counted(len(self.errors), 'bad event')}" if self.errors else ""
        odd = f", {counted(self.warning_count, 'warning')}" if self.warning_count else ""
        full = f", {self.deliveries.rejected:,} not delivered" if self.deliveries.rejected else ""
        return f"PublishResult({found} of {published}{bad}{odd}{full})"

    def __getitem__(self, event: int) -> list[Any]:
        """Returns the ids of the subscriptions that match the event at this position."""
        return self.matches()[event]

    def __reduce__(self) -> Any:
        """Pickles the result without the callbacks, which only work in this process, and without what can be computed again."""
        return PublishResult, (
            self.event_ids, self.levels, self.level_names, self.parts, self.positions, self.errors, self.deliveries,
            self.names, None, self.lineage, self.idempotency_key, self.moment,
            None, self.warnings, self.warning_count,
        )  # fmt: skip

    @classmethod
    def of(cls, events: PublishedEvents, reply: PublishReply) -> PublishResult:
        """Combines the events as they were published with the server's reply, whose matches must be in this process."""
        errors = [*events.errors, *reply.errors]
        if errors:
            errors.sort(key=lambda error: error.position or 0)
        return cls(
            events.ids,
            reply.levels,
            reply.level_names,
            reply.parts,
            events.positions,
            errors,
            reply.deliveries,
            reply.names,
            lineage=reply.lineage,
            moment=events.batch._moment,
            warnings=events.warnings,
            warning_count=events.warning_count,
        )

    @property
    def offsets(self) -> NDArray[np.int64]:
        return self._all().offsets

    @property
    def packed_ids(self) -> Any:
        """The subscription ids in their transport form: an array of integers, or an Arrow array of strings. `subscription_ids` holds the
        same ids."""
        return self._all().match_ids

    @property
    def subscription_ids(self) -> NDArray[Any]:
        if self._ids is None:
            merged = self._all()
            self._ids = unpacked_ids(merged.ids)[merged.places]
        return self._ids

    @property
    def subscribers(self) -> NDArray[Any]:
        """The name of each match's subscriber."""
        found: NDArray[Any] = np.array(self._owners(), object)[self._all().places]
        return found

    @property
    def priorities(self) -> NDArray[Any]:
        """The name of each event's priority level."""
        found: NDArray[Any] = np.array(self.level_names, object)[self.levels]
        return found

    def codes(self) -> NDArray[np.int32]:
        """Returns the codes of all subscribers that have a match, in ascending order."""
        return subscribers_of(self.parts)

    def counts(self) -> NDArray[np.int64]:
        """Returns the number of matches of each event."""
        return np.diff(self.offsets)

    def pairs(self) -> Iterator[tuple[Any, Any]]:
        """Yields (event id, subscription id) for every match, in the order of the events."""
        return self.matches().pairs()

    def matches(self) -> MatchBatch:
        """Returns the matches as `MatchIndex.match_many` returns them."""
        return MatchBatch(
            self.offsets,
            self.subscription_ids,
            self.event_ids,
            self.priorities,
            self.errors,
            self.warnings,
            self.moment,
            self.lookup,
        )

    def data(self) -> list[Any]:
        """Returns the data of each match's subscription (`Server.subscribe(…, data=…)`) as they are when `data` or `tags` is called first,
        which asks the registry; None if it has none or no longer exists. Shards do not have them, so that events are matched without:
        a subscription that is replaced between the publication and this call has the new data. Matches of one share one object."""
        known = {id: data_of(found) for id, found in self._metadata().items()}
        return [known[id] for id in self.subscription_ids.tolist()]

    def tags(self) -> list[tuple[str, ...]]:
        """Returns the tags of each match's subscription, as `data` does."""
        known = self._metadata()
        return [tags_of(known[id]) for id in self.subscription_ids.tolist()]

    def _metadata(self) -> dict[Any, Metadata | None]:
        if self._carried is None:
            self._carried = distinct_data(self.lookup, self.subscription_ids.tolist())
        return self._carried

    def to_arrow(self, *, data: bool = False) -> pa.Table:
        """Returns a table with a row for each match: event_id, subscription_id, subscriber, priority. `data`: also the columns `data`
        (JSON as text) and `tags` (lists) of each match's subscription, as the methods of these names find them."""
        ids = self.packed_ids
        columns = {
            "event_id": arrow_ids("event_id", np.repeat(self.event_ids, self.counts())),
            "subscription_id": ids if isinstance(ids, pa.Array) else arrow_ids("subscription_id", ids),
            "subscriber": self.arrow_subscribers(),
            "priority": self.arrow_priorities(),
        }
        if data:
            columns |= metadata_columns(self._metadata(), self.subscription_ids.tolist())
        return pa.table(columns)

    def arrow_subscribers(self) -> pa.Array:
        """Returns the name of each match's subscriber as an Arrow column."""
        return pa.array(self._owners(), pa.string()).take(pa.array(self._all().places))

    def arrow_priorities(self) -> pa.Array:
        """Returns the name of each match's priority level as an Arrow column."""
        levels = pa.array(np.repeat(self.levels, self.counts()).astype(np.int32))
        return pa.DictionaryArray.from_arrays(levels, list(self.level_names)).cast(pa.string())

    def to_pandas(self, *, data: bool = False) -> Any:
        """Returns the same as a pandas DataFrame, in which ids of str and int may be mixed, and `data` has values instead of JSON."""
        import pandas as pd

        counts = self.counts()
        columns = {
            "event_id": np.repeat(self.event_ids, counts),
            "subscription_id": self.subscription_ids,
            "subscriber": self.subscribers,
            "priority": np.repeat(self.priorities, counts),
        }
        if data:
            columns |= {"data": object_column(self.data()), "tags": object_column(self.tags())}
        return pd.DataFrame(columns)

    def raise_if_rejected(self, retry_after: float = 1.0) -> None:
        """Raises OverloadedError if a mailbox was full. Publishing the same events again, with the same event ids or under the error's
        `idempotency_key`, delivers only what was not delivered."""
        found = self.deliveries
        if found.rejected:
            shown = ", ".join(map(repr, found.rejected_subscribers[:5]))
            published = len(self.event_ids) - len(self.errors)
            raise OverloadedError(
                f"deliveries to {shown}", found.rejected, retry_after, published, self.idempotency_key
            )

    def raise_if_bad(self) -> None:
        """Raises the EventError of the first event that could not be used. The other events were published."""
        if self.errors:
            raise self.errors[0]

    @classmethod
    def joined(cls, results: Sequence[PublishResult]) -> PublishResult:
        """Joins the results of a publication that was sent in portions."""
        if len(results) == 1:
            return results[0]
        errors: list[EventError] = []
        warnings: list[EventError] = []
        deliveries, event = Delivered(), 0
        for result in results:
            errors += [error.at((error.position or 0) + event) for error in result.errors]
            more = result.warnings[: max(0, MOST_WARNINGS - len(warnings))]
            warnings += [warning.at((warning.position or 0) + event) for warning in more]
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
            idempotency_key=results[0].idempotency_key,
            moment=results[0].moment,
            lookup=results[0].lookup,
            warnings=warnings,
            warning_count=sum(result.warning_count for result in results),
        )

    def _all(self) -> ShardMatches:
        if self._merged is None:
            good = len(self.event_ids) if self.positions is None else len(self.positions)
            merged = merge_matches(self.parts, good)
            if self.positions is not None:
                counts = np.zeros(len(self.event_ids), np.int64)
                counts[self.positions] = np.diff(merged.offsets)
                offsets = np.concatenate([[0], np.cumsum(counts)])
                merged = ShardMatches(offsets, merged.places, merged.ids, merged.subscribers, merged.numbers)
            self._merged = merged
        return self._merged

    def _owners(self) -> list[str]:
        """Returns the name of the subscriber for every distinct subscription among the matches."""
        known = self._names(self.codes())
        return [known[code] for code in self._all().subscribers.tolist()]

    def name_subscribers(self) -> None:
        """Asks a coordinator for the names of the subscribers, if the reply did not have them. Later uses of the result then ask nobody."""
        self._names(self.codes())

    def _names(self, codes: NDArray[np.int32]) -> dict[int, str]:
        if self.names is None:
            self.names = {} if self.naming is None or not len(codes) else self.naming(self.lineage, codes)
        return self.names
