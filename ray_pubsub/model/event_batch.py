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

__all__ = ["Cells", "EventBatch", "Lane", "Layout", "split_floats", "split_number"]


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


Layout = tuple[tuple[str, int], ...]
"""Attribute and kind of each lane."""


@dataclass(slots=True, eq=False)
class Cells:
    """All lanes of a batch one after the other: lane i has the cells `offsets[i]:offsets[i + 1]`."""

    offsets: NDArray[np.int64]
    rows: NDArray[np.int32]
    whole: NDArray[np.int64]
    rest: NDArray[np.float64]


@dataclass(slots=True, eq=False)
class EventBatch:
    """`size` good events. Bad ones are in `errors`; `positions` says where the good ones stood in the input."""

    size: int
    lanes: list[Lane]
    input_ids: NDArray[Any]
    """An id per event of the input; None where a bad event has none."""
    positions: NDArray[np.int64] | None = None
    """The input position of each good event; None if all were good."""
    errors: list[EventError] = field(default_factory=list)
    plans: dict[Any, Any] = field(default_factory=dict)
    """A place for event_codes.py to remember how the batch is coded."""
    _layout: Layout | None = None
    _cells: Cells | None = None

    @property
    def ids(self) -> NDArray[Any]:
        """An id per good event."""
        return self.input_ids if self.positions is None else self.input_ids[self.positions]

    @property
    def input_size(self) -> int:
        return len(self.input_ids)

    def layout(self) -> Layout:
        """Which attributes and kinds the lanes are of."""
        if self._layout is None:
            self._layout = tuple([(lane.attribute, int(lane.kind)) for lane in self.lanes])
        return self._layout

    def cells(self) -> Cells:
        """The lanes joined, for kernels that go over all of them; joined once."""
        if self._cells is None:
            lengths = np.array([len(lane) for lane in self.lanes], dtype=np.int64)
            every = np.arange(self.size, dtype=np.int32)
            rest = np.zeros(int(lengths.sum()))
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
            for lane, start in zip(self.lanes, offsets.tolist(), strict=False):
                if lane.rest is not None:
                    rest[start : start + len(lane)] = lane.rest
            self._cells = Cells(
                offsets,
                _joined([every if lane.rows is None else lane.rows for lane in self.lanes], np.int32),
                _joined([lane.whole for lane in self.lanes], np.int64),
                rest,
            )
        return self._cells

    def rows(self) -> list[dict[str, Value]]:
        """The events as dictionaries. For the scan engine and for people, not for a hot path."""
        events: list[dict[str, Value]] = [{} for _ in range(self.size)]
        for lane in self.lanes:
            rows = range(self.size) if lane.rows is None else lane.rows.tolist()
            for position, row in enumerate(rows):
                events[row][lane.attribute] = Value(lane.kind, lane.plain(position))
        return events


def _joined(parts: list[NDArray[Any]], kind: type) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, dtype=kind)


def split_number(number: int | float) -> tuple[int, float]:
    """(whole, rest) of one number, as split_floats gives them."""
    if isinstance(number, int):
        return number, 0.0
    if not -(2.0**63) <= number < 2.0**63:
        return (INT64_MAX if number > 0 else INT64_MIN), number
    whole = int(number)
    return whole, number - whole


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
