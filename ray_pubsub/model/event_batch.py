"""A batch of events in columns, which every engine reads.

An attribute's values of one kind form a lane: the rows that have a value, and the values as order-preserving keys. A number is the pair
(whole, rest): its integer part, and the remainder as a float. The pair orders int64 and float64 exactly, lexicographically, which a single
float64 could not (2**53 and 2**53 + 1). Timestamps and booleans are integers. A string is a position in the lane's strings, which may
contain duplicates; columns/string_hashes.py finds the distinct ones where that pays.
"""

from __future__ import annotations

import time
from collections.abc import Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.errors import EventError
from ray_pubsub.model.attribute_tree import AttributeTree, ReadScope
from ray_pubsub.model.text_column import TextColumn
from ray_pubsub.model.values import INT64_MAX, INT64_MIN, Kind, Value

__all__ = [
    "Cells",
    "EventBatch",
    "Flags",
    "Lane",
    "Layout",
    "ListColumn",
    "Plans",
    "joined_lanes",
    "kept_rows",
    "merged_lanes",
    "split_floats",
    "split_number",
    "without_bad",
]

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Lane:
    """The values of one kind that one attribute has in a batch."""

    attribute: str
    kind: Kind
    rows: NDArray[np.int32] | None
    """The row of each value, ascending; None if every row has one."""
    whole: NDArray[np.int64]
    """Number: integer part. Timestamp: microseconds. Boolean: 0 or 1. String: position in `strings`. List: position in `lists`."""
    rest: NDArray[np.float64] | None = None
    """Number: the remainder beside `whole`; None if it is zero throughout."""
    strings: TextColumn | None = None
    lists: ListColumn | None = None

    def __len__(self) -> int:
        return len(self.whole)

    def plain(self, position: int) -> Any:
        """Returns the value as a Python object (values.py)."""
        whole = int(self.whole[position])
        if self.kind == Kind.STRING:
            assert self.strings is not None
            return self.strings[whole]
        if self.kind == Kind.LIST:
            assert self.lists is not None
            return self.lists[whole]
        if self.kind == Kind.BOOLEAN:
            return bool(whole)
        if self.rest is None or self.rest[position] == 0:
            return whole
        rest = float(self.rest[position])
        return rest if abs(rest) >= 2.0**63 else whole + rest


Layout = tuple[tuple[str, int], ...]
"""The attribute and kind of each lane."""


@dataclass(slots=True, eq=False)
class Cells:
    """All lanes of a batch one after the other: lane i has the cells `offsets[i]:offsets[i + 1]`."""

    offsets: NDArray[np.int64]
    rows: NDArray[np.int32]
    whole: NDArray[np.int64]
    rest: NDArray[np.float64]


class Plans(dict[Hashable, Any]):
    """Results that readers have computed for a batch and will need again, for example how a code space codes it. A batch may be kept and
    matched against one index after the other, so the number is bounded."""

    MOST = 1024

    def remember(self, key: Hashable, plan: T) -> T:
        if len(self) >= self.MOST:
            self.clear()
        self[key] = plan
        return plan


class Flags(NamedTuple):
    """Computed attributes that are true of an event or absent from it, of which an index may have a million and an event a few: the row
    and the attribute's number in the index's vocabulary (columns/computed/list_flags.py). Rows ascend."""

    rows: NDArray[np.int32]
    numbers: NDArray[np.int32]


@dataclass(slots=True, eq=False)
class EventBatch:
    """`size` good events. Bad ones are in `errors`; `positions` has the places of the good ones in the input."""

    size: int
    lanes: list[Lane]
    input_ids: NDArray[Any]
    """An id for each event of the input; None where a bad event has none."""
    positions: NDArray[np.int64] | None = None
    """The input position of each good event; None if all were good."""
    errors: list[EventError] = field(default_factory=list)
    scope: ReadScope | None = None
    """The attributes that were read; None if all were."""
    plans: Plans = field(default_factory=Plans)
    flags: Flags | None = None
    """The flags beside the lanes, in a batch for which an index has computed attributes."""
    warnings: list[EventError] = field(default_factory=list)
    """The attributes that were left out because their values cannot be used."""
    _moment: int | None = None
    _layout: Layout | None = None
    _cells: Cells | None = None

    @property
    def ids(self) -> NDArray[Any]:
        """The ids of the good events."""
        return self.input_ids if self.positions is None else self.input_ids[self.positions]

    @property
    def moment(self) -> int:
        """The value of now() for all events of the batch, in microseconds; taken on first use."""
        if self._moment is None:
            self._moment = time.time_ns() // 1000
        return self._moment

    @property
    def input_size(self) -> int:
        return len(self.input_ids)

    def check_covers(self, wanted: AttributeTree) -> None:
        """Raises EventError if an attribute that is wanted now was not read."""
        missing = None if self.scope is None else self.scope.missing(wanted)
        if missing is not None:
            raise EventError(missing, "was not read when the batch was prepared; prepare it again")

    def attributes(self) -> list[str]:
        """Returns the attributes that some event has; one that has values of several kinds occurs several times."""
        return [lane.attribute for lane in self.lanes if len(lane)]

    def layout(self) -> Layout:
        """Returns the attributes and kinds of the lanes."""
        if self._layout is None:
            self._layout = tuple([(lane.attribute, int(lane.kind)) for lane in self.lanes])
        return self._layout

    def cells(self) -> Cells:
        """Returns the lanes joined, for kernels that process all of them; they are joined once."""
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

    def rows(self, wanted: Container[str] | None = None) -> list[dict[str, Value]]:
        """Returns the events as dictionaries, with all attributes or the wanted ones. For the scan engine and for people, not for a hot
        path."""
        events: list[dict[str, Value]] = [{} for _ in range(self.size)]
        for lane in self.lanes:
            if wanted is not None and lane.attribute not in wanted:
                continue
            rows = range(self.size) if lane.rows is None else lane.rows.tolist()
            for position, row in enumerate(rows):
                events[row][lane.attribute] = Value(lane.kind, lane.plain(position))
        return events


def kept_rows(lane: Lane, good: NDArray[np.bool_]) -> Lane:
    """Returns the cells of a lane whose rows are good."""
    keep = good if lane.rows is None else good[lane.rows]
    rows = np.flatnonzero(good).astype(np.int32) if lane.rows is None else lane.rows[keep]
    return replace(lane, rows=rows, whole=lane.whole[keep], rest=None if lane.rest is None else lane.rest[keep])


def without_bad(
    lanes: list[Lane], size: int, problems: Mapping[int, tuple[str | None, str]]
) -> tuple[list[Lane], NDArray[np.int64] | None, list[EventError]]:
    """Returns the lanes of the rows that have no problem, renumbered; the former places of those rows; and the problems as errors."""
    if not problems:
        return lanes, None, []
    good = np.ones(size, dtype=bool)
    good[list(problems)] = False
    number = np.cumsum(good, dtype=np.int32) - np.int32(1)
    kept = [kept_rows(lane, good) for lane in lanes]
    lanes = [replace(lane, rows=number[lane.rows]) for lane in kept if len(lane)]
    return lanes, np.flatnonzero(good), [EventError(*problem, row) for row, problem in sorted(problems.items())]


def joined_lanes(lanes: Sequence[Lane]) -> Lane:
    """Joins lanes of one attribute and kind. Their rows must ascend from lane to lane."""
    strings, firsts = None, [0] * len(lanes)
    if lanes[0].strings is not None:
        columns = [lane.strings for lane in lanes if lane.strings is not None]
        strings, firsts = TextColumn.joined(columns), np.cumsum([0, *map(len, columns)])[:-1].tolist()
    lists = None
    if lanes[0].lists is not None:
        of_lists = [lane.lists for lane in lanes if lane.lists is not None]
        lists, firsts = ListColumn.joined(of_lists), np.cumsum([0, *map(len, of_lists)])[:-1].tolist()
    rests = [np.zeros(len(lane)) if lane.rest is None else lane.rest for lane in lanes]
    return replace(
        lanes[0],
        rows=np.concatenate([lane.rows for lane in lanes if lane.rows is not None]),
        whole=np.concatenate([lane.whole + first for lane, first in zip(lanes, firsts, strict=True)]),
        rest=None if all(lane.rest is None for lane in lanes) else np.concatenate(rests),
        strings=strings,
        lists=lists,
    )


def merged_lanes(lanes: Sequence[Lane], others: Sequence[Lane], rows: NDArray[np.int32], size: int) -> list[Lane]:
    """Merges the lanes of a batch of this size with those of another batch, whose events are at `rows` of it. No row may be in both."""
    found = {(lane.attribute, lane.kind): lane for lane in lanes}
    for other in others:
        key = other.attribute, other.kind
        lane = replace(other, rows=rows if other.rows is None else rows[other.rows])
        if key in found:
            lane = joined_lanes([found[key], lane])
            assert lane.rows is not None
            order = np.argsort(lane.rows)
            lane = replace(
                lane,
                rows=lane.rows[order],
                whole=lane.whole[order],
                rest=None if lane.rest is None else lane.rest[order],
            )
        found[key] = lane if len(lane) < size else replace(lane, rows=None)
    return list(found.values())


class ListColumn:
    """Lists: list i has the elements `offsets[i]:offsets[i + 1]` of a batch in which every element is an event. An object has its
    attributes there; any other value is under the empty name, and a null has nothing."""

    __slots__ = ("elements", "offsets")

    def __init__(self, offsets: NDArray[np.int64], elements: EventBatch) -> None:
        self.offsets = offsets
        self.elements = elements

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, place: int) -> tuple[Any, ...]:
        """Returns the list in the form of values.py. For people and for the scan; each call reads all elements."""
        return tuple(map(_element, self._rows()[int(self.offsets[place]) : int(self.offsets[place + 1])]))

    def _rows(self) -> list[dict[str, Value]]:
        rows: list[dict[str, Value]] | None = self.elements.plans.get("rows")
        return self.elements.plans.remember("rows", self.elements.rows()) if rows is None else rows

    def owners(self) -> NDArray[np.int64]:
        """Returns the list of each element."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    @property
    def nbytes(self) -> int:
        lanes = self.elements.lanes
        inner = sum(each.nbytes for lane in lanes for each in (lane.strings, lane.lists) if each is not None)
        return (
            self.offsets.nbytes
            + inner
            + sum(lane.whole.nbytes + (0 if lane.rest is None else lane.rest.nbytes) for lane in lanes)
        )

    @classmethod
    def joined(cls, columns: Sequence[ListColumn]) -> ListColumn:
        """Joins columns of lists one after the other."""
        firsts = np.cumsum([0, *(column.elements.size for column in columns)])
        offsets = [column.offsets[1:] + first for column, first in zip(columns, firsts.tolist(), strict=False)]
        found: dict[tuple[str, Kind], list[Lane]] = {}
        for column, first in zip(columns, firsts.tolist(), strict=False):
            for lane in column.elements.lanes:
                rows = np.arange(column.elements.size, dtype=np.int32) if lane.rows is None else lane.rows
                found.setdefault((lane.attribute, lane.kind), []).append(replace(lane, rows=rows + np.int32(first)))
        size = int(firsts[-1])
        return cls(
            np.concatenate([[0], *offsets]).astype(np.int64),
            EventBatch(size, list(map(joined_lanes, found.values())), NO_IDS),
        )

    def take(self, places: NDArray[np.int64]) -> ListColumn:
        """Returns the lists at these places. A place that occurs more than once is copied."""
        counts = np.diff(self.offsets)[places]
        ends = np.cumsum(counts)
        size = int(ends[-1]) if len(ends) else 0
        chosen = np.arange(size) + np.repeat(self.offsets[places] - ends + counts, counts)
        lanes = []
        for lane in self.elements.lanes:
            cell = chosen
            rows = None
            if lane.rows is not None:
                place = np.full(self.elements.size, -1, np.int64)
                place[lane.rows] = np.arange(len(lane))
                rows = np.flatnonzero(place[chosen] >= 0).astype(np.int32)
                cell = place[chosen][rows]
            if len(cell):
                rest = None if lane.rest is None else lane.rest[cell]
                lanes.append(replace(lane, rows=rows, whole=lane.whole[cell], rest=rest))
        return ListColumn(np.concatenate([[0], ends]).astype(np.int64), EventBatch(size, lanes, NO_IDS))


NO_IDS = np.empty(0, np.int64)
OBJECT = "\0object"
"""An attribute that is true for an element of a list that is an object, so that an object without relevant attributes differs from a
null."""


def _element(row: dict[str, Value]) -> Any:
    """Returns one element of a list: a value, None, or an object."""
    if OBJECT not in row:
        return row.get("")
    return {name: value for name, value in row.items() if name != OBJECT}


def _joined(parts: list[NDArray[Any]], kind: type) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, dtype=kind)


def split_number(number: int | float) -> tuple[int, float]:
    """Returns (whole, rest) of one number, as split_floats does."""
    if isinstance(number, int):
        return number, 0.0
    if not -(2.0**63) <= number < 2.0**63:
        return (INT64_MAX if number > 0 else INT64_MIN), number
    whole = int(number)
    return whole, number - whole


def split_floats(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    """Returns (whole, rest) of floats without NaN. Beyond int64 the whole saturates and the rest is the number itself."""
    truncated = np.trunc(values)
    inside = (truncated >= -(2.0**63)) & (truncated < 2.0**63)
    if inside.all():
        rest = values - truncated  # exact, because both share the exponent's grid
        whole = truncated.astype(np.int64)
        return whole, (rest if rest.any() else None)
    whole = np.where(inside, truncated, 0).astype(np.int64)
    whole[~inside] = np.where(values[~inside] > 0, INT64_MAX, INT64_MIN)
    with np.errstate(invalid="ignore"):
        return whole, np.where(inside, values - truncated, values)
