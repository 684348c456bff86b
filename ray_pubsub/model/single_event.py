"""A batch of one event. Making arrays of one value takes longer than many a match, so they are made only on request."""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.errors import EventError
from ray_pubsub.model.arguments import is_unicode
from ray_pubsub.model.attribute_tree import AttributeTree, ReadScope
from ray_pubsub.model.event_batch import Cells, EventBatch, Lane, Layout, Plans, split_number
from ray_pubsub.model.list_values import list_column
from ray_pubsub.model.text_column import TextColumn
from ray_pubsub.model.values import INT64_MAX, INT64_MIN, Kind, Value, ValueProblem, read_value

__all__ = ["SingleEvent", "read_flat", "read_plain", "single_of"]

NUMBER, STRING, BOOLEAN, LIST = int(Kind.NUMBER), int(Kind.STRING), int(Kind.BOOLEAN), int(Kind.LIST)
KIND_OF = tuple(Kind)
FIRST_ID = np.zeros(1, dtype=np.int64)
FIRST_ID.flags.writeable = False
WHOLE = {int, bool, str}
"""Types of plain values that have no fractions."""
SPARSE = 2
"""If there are more attributes than this many times an event's keys, the keys are looked up among the attributes, not the other way
round."""


class SingleEvent(EventBatch):
    """One good event: for each attribute that it has a name, a kind (an int, because enums hash slowly) and a plain value (values.py),
    in the same order."""

    __slots__ = ("_lanes", "kinds", "names", "plains")

    def __init__(self, names: list[str], kinds: list[int], plains: list[Any], scope: ReadScope | None) -> None:
        self.names, self.kinds, self.plains = names, kinds, plains
        self.size, self.input_ids, self.positions, self.errors, self.scope = 1, FIRST_ID, None, [], scope
        self.plans, self._layout, self._cells = Plans(), None, None
        self.flags, self.warnings, self._moment = None, [], None
        self._lanes: list[Lane] | None = None

    @property
    def lanes(self) -> list[Lane]:  # type: ignore[override]
        if self._lanes is None:
            cells = self.cells()
            lanes = []
            for place, (name, kind) in enumerate(zip(self.names, self.kinds, strict=True)):
                this = slice(place, place + 1)
                rest = cells.rest[this] if cells.rest[place] else None
                strings = TextColumn(None, [self.plains[place]]) if kind == STRING else None
                lists = list_column([self.plains[place]]) if kind == LIST else None
                lanes.append(Lane(name, KIND_OF[kind], None, cells.whole[this], rest, strings, lists))
            self._lanes = lanes
        return self._lanes

    def attributes(self) -> list[str]:
        return self.names

    def layout(self) -> Layout:
        if self._layout is None:
            self._layout = tuple(zip(self.names, self.kinds, strict=True))
        return self._layout

    def cells(self) -> Cells:
        if self._cells is None:
            count = len(self.names)
            types = set(map(type, self.plains))
            if types <= WHOLE:
                # Half of the time. A dictionary per attribute from values to codes gains a little more where attributes have a few dozen
                # values, and doubles the time of coding where they have thousands (`python -m benchmarks value_codes`).
                plains = self.plains if str not in types else [0 if type(each) is str else each for each in self.plains]
                self._cells = Cells(*_no_rows(count), np.array(plains, dtype=np.int64), _no_rests(count))
            else:
                pairs = [
                    (0, 0.0) if kind in (STRING, LIST) else split_number(plain) if kind == NUMBER else (int(plain), 0.0)
                    for kind, plain in zip(self.kinds, self.plains, strict=True)
                ]
                whole = np.array([pair[0] for pair in pairs], dtype=np.int64)
                rest = np.array([pair[1] for pair in pairs], dtype=np.float64)
                self._cells = Cells(*_no_rows(count), whole, rest)
        return self._cells

    def rows(self, wanted: Container[str] | None = None) -> list[dict[str, Value]]:
        values = [Value(KIND_OF[kind], plain) for kind, plain in zip(self.kinds, self.plains, strict=True)]
        found = dict(zip(self.names, values, strict=True))
        return [found if wanted is None else {name: found[name] for name in self.names if name in wanted}]

    def __reduce__(self) -> Any:
        return SingleEvent, (self.names, self.kinds, self.plains, self.scope)


@lru_cache(maxsize=256)
def _no_rows(count: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Returns the offsets and the rows of lanes of one value each. All events of this many values share them: nobody writes to cells."""
    return np.arange(count + 1), np.zeros(count, dtype=np.int32)


@lru_cache(maxsize=256)
def _no_rests(count: int) -> NDArray[np.float64]:
    return np.zeros(count)


def single_of(batch: EventBatch) -> SingleEvent | None:
    """Returns a batch of one event as a SingleEvent, or None if it has lanes without a value."""
    if isinstance(batch, SingleEvent):
        return batch
    lanes = batch.lanes
    if batch.flags is not None or not all(len(lane) == 1 for lane in lanes):
        return None
    event = SingleEvent(
        [lane.attribute for lane in lanes],
        [int(lane.kind) for lane in lanes],
        [lane.plain(0) for lane in lanes],
        batch.scope,
    )
    event.plans, event._layout, event._cells, event._lanes = batch.plans, batch._layout, batch._cells, lanes
    event._moment, event.warnings = batch._moment, batch.warnings
    return event


def read_flat(
    event: Mapping[str, Any], attributes: AttributeTree, left_out: list[EventError] | None = None
) -> SingleEvent:
    """Reads one event when no attribute is nested. Raises EventError. With `left_out`, a value that cannot be used is absent, and its
    error is added there."""
    names: list[str] = []
    kinds: list[int] = []
    plains: list[Any] = []
    tested = attributes.root.attributes
    scope = attributes.scope
    listed = attributes.listed() if len(tested) <= SPARSE * len(event) else [key for key in event if key in tested]
    for name in listed:
        plain = event.get(name)
        if plain is None:
            continue
        kind = type(plain)
        if kind is str:
            if not plain.isascii() and _checked(name, plain, left_out) is None:
                continue
            kinds.append(STRING)
        elif kind is int and INT64_MIN <= plain <= INT64_MAX:
            kinds.append(NUMBER)
        elif kind is float:
            if plain != plain:
                continue
            kinds.append(NUMBER)
        elif kind is bool:
            kinds.append(BOOLEAN)
        elif isinstance(plain, Mapping):  # attributes inside it have other names
            continue
        else:
            value = _checked(name, plain, left_out)
            if value is None:
                continue
            kinds.append(int(value.kind))
            plain = value.plain
        names.append(name)
        plains.append(plain)
    single = SingleEvent(names, kinds, plains, scope)
    if left_out:
        single.warnings = left_out
    return single


def read_plain(event: dict[Any, Any]) -> SingleEvent | None:
    """Reads all attributes of one event if each is a plain value: a number, a text or a truth value. Returns None for any other
    event."""
    names: list[str] = []
    kinds: list[int] = []
    plains: list[Any] = []
    for name, plain in event.items():
        kind = type(plain)
        if kind is str and (plain.isascii() or is_unicode(plain)):
            kinds.append(STRING)
        elif (kind is int and INT64_MIN <= plain <= INT64_MAX) or (kind is float and plain == plain):
            kinds.append(NUMBER)
        elif kind is bool:
            kinds.append(BOOLEAN)
        elif plain is None or kind is float:
            if type(name) is not str:
                return None
            continue
        else:
            return None
        if type(name) is not str:
            return None
        names.append(name)
        plains.append(plain)
    return SingleEvent(names, kinds, plains, None)


def _checked(name: str, raw: Any, left_out: list[EventError] | None) -> Value | None:
    try:
        return read_value(raw)
    except ValueProblem as problem:
        if left_out is None:
            raise EventError(name, str(problem)) from None
        left_out.append(EventError(name, str(problem), 0))
        return None
