"""The result of matching a batch of events: for every event, the subscriptions that match it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.errors import EventError

__all__ = ["MatchBatch"]


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
        """A pyarrow Table: event_id, subscription_id and, if there are any, priority."""
        import pyarrow as pa

        columns = {"event_id": _arrow(self._event_column()), "subscription_id": _arrow(self.subscription_ids)}
        if self.priorities is not None:
            columns["priority"] = _arrow(np.repeat(self.priorities, self.counts()))
        return pa.table(columns)

    def to_pandas(self) -> Any:
        """The same as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def _event_column(self) -> NDArray[Any]:
        column: NDArray[Any] = np.repeat(self.event_ids, self.counts())
        return column

    def __repr__(self) -> str:
        bad = f", {len(self.errors)} bad events" if self.errors else ""
        return f"MatchBatch({len(self)} matches of {len(self.event_ids)} events{bad})"


def _arrow(column: NDArray[Any]) -> Any:
    """Ids of one type keep it; a mixture of str and int becomes text, since Arrow columns have one type."""
    import pyarrow as pa

    if column.dtype != object:
        return pa.array(column)
    types = {type(identity) for identity in column.tolist()}
    if types == {int}:
        return pa.array(column.tolist(), pa.int64())
    return pa.array([str(identity) for identity in column.tolist()], pa.string())
