"""The result of matching a batch of events: for every event, the subscriptions that match it."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.errors import EventError, TableError, counted

__all__ = ["MatchBatch", "arrow_ids"]


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

    def __len__(self) -> int:
        return len(self.subscription_ids)

    def __getitem__(self, event: int) -> list[Any]:
        """The ids of the subscriptions that match the event at this position."""
        event = operator.index(event)
        if not -len(self.event_ids) <= event < len(self.event_ids):
            raise IndexError(f"event {event} of {len(self.event_ids)}")
        event %= len(self.event_ids)
        found: list[Any] = self.subscription_ids[self.offsets[event] : self.offsets[event + 1]].tolist()
        return found

    def counts(self) -> NDArray[np.int64]:
        """Matches per event."""
        return np.diff(self.offsets)

    def pairs(self) -> Iterator[tuple[Any, Any]]:
        """(event id, subscription id), in the order of the events."""
        return zip(self._event_column().tolist(), self.subscription_ids.tolist(), strict=True)

    def to_arrow(self) -> Any:
        """A pyarrow Table: event_id, subscription_id and, if there are any, priority. A column of Arrow has one type, so ids of
        both str and int raise a TableError: 5 and "5" would become one."""
        import pyarrow as pa

        columns = {
            "event_id": arrow_ids("event_id", self._event_column()),
            "subscription_id": arrow_ids("subscription_id", self.subscription_ids),
        }
        if self.priorities is not None:
            columns["priority"] = arrow_ids("priority", np.repeat(self.priorities, self.counts()))
        return pa.table(columns)

    def to_pandas(self) -> Any:
        """The same as a pandas DataFrame, which may hold ids of str and int side by side."""
        import pandas as pd

        columns = {"event_id": self._event_column(), "subscription_id": self.subscription_ids}
        if self.priorities is not None:
            columns["priority"] = np.repeat(self.priorities, self.counts())
        return pd.DataFrame(columns)

    def _event_column(self) -> NDArray[Any]:
        column: NDArray[Any] = np.repeat(self.event_ids, self.counts())
        return column

    def __repr__(self) -> str:
        bad = f", {counted(len(self.errors), 'bad event')}" if self.errors else ""
        found = counted(len(self), "match", "matches")
        return f"MatchBatch({found} of {counted(len(self.event_ids), 'event')}{bad})"


def arrow_ids(name: str, column: NDArray[Any]) -> Any:
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
