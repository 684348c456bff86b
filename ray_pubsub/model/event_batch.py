"""A batch of events in columns: what every engine reads.

An attribute's values of one kind form a lane: the rows that have a value, and the values as order-preserving keys. A number is
the pair (whole, rest): its integer part, and what is left as a float. The pair orders int64 and float64 exactly, lexicographically,
where a single float64 could not (2**53 and 2**53 + 1). Timestamps and booleans are integers. A string is a
position in the lane's list of distinct strings, so that whatever is asked of a string is asked once per distinct value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.errors import EventError
from ray_pubsub.model.values import INT64_MAX, INT64_MIN, Kind, Value

__all__ = ["EventBatch", "Lane", "split_floats"]


@dataclass(slots=True, eq=False)
class Lane:
    """The values of one kind that one attribute has in a batch."""

    attribute: str
    kind: Kind
    rows: NDArray[np.int32] | None
    """The row of each value, ascending; None if every row has one."""
    whole: NDArray[np.int64]
    """Number: integer part. Timestamp: microseconds. Boolean: 0 or 1. String: position in `strings`."""
    rest: NDArray[np.float64] | None = None
    """Number: what `whole` leaves; None if it is zero throughout."""
    strings: list[str] | None = None

    def __len__(self) -> int:
        return len(self.whole)

    def plain(self, position: int) -> Any:
        """The value as a Python object (values.py)."""
        whole = int(self.whole[position])
        if self.kind == Kind.STRING:
            assert self.strings is not None
            return self.strings[whole]
        if self.kind == Kind.BOOLEAN:
            return bool(whole)
        if self.rest is None or self.rest[position] == 0:
            return whole
        rest = float(self.rest[position])
        return rest if abs(rest) >= 2.0**63 else whole + rest


@dataclass(slots=True, eq=False)
class EventBatch:
    """`size` good events. Bad ones are in `errors`; `positions` says where the good ones stood in the input."""

    size: int
    lanes: list[Lane]
    ids: NDArray[Any]
    """An id per good event."""
    input_size: int
    positions: NDArray[np.int64] | None = None
    """The input position of each good event; None if all were good."""
    errors: list[EventError] = field(default_factory=list)

    def rows(self) -> list[dict[str, Value]]:
        """The events as dictionaries. For the scan engine and for people, not for a hot path."""
        events: list[dict[str, Value]] = [{} for _ in range(self.size)]
        for lane in self.lanes:
            rows = range(self.size) if lane.rows is None else lane.rows.tolist()
            for position, row in enumerate(rows):
                events[row][lane.attribute] = Value(lane.kind, lane.plain(position))
        return events


def split_floats(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    """(whole, rest) of floats without NaN. Beyond int64 the whole saturates and the rest is the number itself."""
    truncated = np.trunc(values)
    inside = (truncated >= -(2.0**63)) & (truncated < 2.0**63)
    if inside.all():
        rest = values - truncated  # exact: both share the exponent's grid
        whole = truncated.astype(np.int64)
        return whole, (rest if rest.any() else None)
    whole = np.where(inside, truncated, 0).astype(np.int64)
    whole[~inside] = np.where(values[~inside] > 0, INT64_MAX, INT64_MIN)
    with np.errstate(invalid="ignore"):
        return whole, np.where(inside, values - truncated, values)
