"""The result of matching a batch of events: for every event, the subscriptions that match it."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.errors import EventError, TableError, counted
from ray_pubsub.model.metadata import Lookup, data_of, distinct_data, metadata_columns, tags_of

__all__ = ["MatchBatch", "arrow_ids", "object_column"]


@dataclass(slots=True, eq=False)
class MatchBatch:
    """Matches in columns. Event number i matches `subscription_ids[offsets[i]:offsets[i + 1]]`.

    A bad event has no matches; `errors` says why, by position. `len()` is the number of matches.
    """

    offsets: NDArray[np.int64]
    subscription_ids: NDArray[Any]
    event_ids: NDArray[Any]
    priorities: NDArray[Any] | None = None
    errors: list[EventError] = field(default_factory=list)
    warnings: list[EventError] = field(default_factory=list)
    """The attributes that were left out of events because their values cannot be used."""
    moment: int | None = None
    """The value of now() for all events, in microseconds since 1970; None if no subscription used it."""
    lookup: Lookup | None = field(default=None, repr=False)
    """Finds the data and tags of subscriptions; only available in the process that matched."""

    def __len__(self) -> int:
        return len(self.subscription_ids)

    def __getitem__(self, event: int) -> list[Any]:
        """Returns the ids of the subscriptions that match the event at this position."""
        event = operator.index(event)
        if not -len(self.event_ids) <= event < len(self.event_ids):
            raise IndexError(f"event {event} of {len(self.event_ids)}")
        event %= len(self.event_ids)
        found: list[Any] = self.subscription_ids[self.offsets[event] : self.offsets[event + 1]].tolist()
        return found

    def __iter__(self) -> Iterator[list[Any]]:
        """Yields for each event the ids of the subscriptions that match it."""
        return (self[event] for event in range(len(self.event_ids)))

    def counts(self) -> NDArray[np.int64]:
        """Returns the number of matches of each event."""
        return np.diff(self.offsets)

    def pairs(self) -> Iterator[tuple[Any, Any]]:
        """Yields (event id, subscription id) for every match, in the order of the events."""
        return zip(self._event_column().tolist(), self.subscription_ids.tolist(), strict=True)

    def data(self) -> list[Any]:
        """Returns the data that each match's subscription had when the events were matched (`MatchIndex.add(…, data=…)`), whatever became
        of it since; None if it had none. Matches of one subscription share one object."""
        known = {id: data_of(found) for id, found in self._found().items()}
        return [known[id] for id in self.subscription_ids.tolist()]

    def tags(self) -> list[tuple[str, ...]]:
        """Returns the tags of each match's subscription, as `data` does."""
        known = self._found()
        return [tags_of(known[id]) for id in self.subscription_ids.tolist()]

    def _found(self) -> dict[Any, Any]:
        return distinct_data(self.lookup, self.subscription_ids.tolist())

    def __reduce__(self) -> Any:
        """Pickles the matches without `lookup`, which refers to the index."""
        return MatchBatch, (
            self.offsets, self.subscription_ids, self.event_ids, self.priorities, self.errors, self.warnings, self.moment,
        )  # fmt: skip

    def to_arrow(self, *, data: bool = False) -> Any:
        """Returns a pyarrow Table: event_id, subscription_id and, if there are any, priority. An Arrow column has one type, so mixed ids
        of str and int raise a TableError: 5 and "5" would become one. `data`: also the columns `data` (JSON as text) and `tags` (lists) of
        each match's subscription, as the methods of these names find them."""
        import pyarrow as pa

        columns = {
            "event_id": arrow_ids("event_id", self._event_column()),
            "subscription_id": arrow_ids("subscription_id", self.subscription_ids),
        }
        if self.priorities is not None:
            columns["priority"] = arrow_ids("priority", np.repeat(self.priorities, self.counts()))
        if data:
            columns |= metadata_columns(self._found(), self.subscription_ids.tolist())
        return pa.table(columns)

    def to_pandas(self, *, data: bool = False) -> Any:
        """Returns the same as a pandas DataFrame, in which ids of str and int may be mixed, and `data` has values instead of JSON."""
        import pandas as pd

        columns = {"event_id": self._event_column(), "subscription_id": self.subscription_ids}
        if self.priorities is not None:
            columns["priority"] = np.repeat(self.priorities, self.counts())
        if data:
            columns |= {"data": object_column(self.data()), "tags": object_column(self.tags())}
        return pd.DataFrame(columns)

    def _event_column(self) -> NDArray[Any]:
        column: NDArray[Any] = np.repeat(self.event_ids, self.counts())
        return column

    def __repr__(self) -> str:
        bad = f", {counted(len(self.errors), 'bad event')}" if self.errors else ""
        found = counted(len(self), "match", "matches")
        return f"MatchBatch({found} of {counted(len(self.event_ids), 'event')}{bad})"


def object_column(values: list[Any]) -> NDArray[Any]:
    """Returns the values as they are: numpy would read a list of lists as a table."""
    found = np.empty(len(values), object)
    found[:] = values
    return found


def arrow_ids(name: str, column: NDArray[Any]) -> Any:
    """Returns ids as an Arrow column of strings or integers."""
    import pyarrow as pa

    if column.dtype != object:
        return pa.array(column)
    types = {type(identity) for identity in column.tolist()}
    if types == {int}:
        return pa.array(column.tolist(), pa.int64())
    if not types <= {str}:
        raise TableError(
            name, "has ids of both str and int, which one Arrow column cannot tell apart; use to_pandas or pairs"
        )
    return pa.array(column.tolist(), pa.string())
