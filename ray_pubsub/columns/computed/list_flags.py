"""Tests lists against constants, for all subscriptions at once: each element of a batch's lists is looked up among the constants that
subscriptions ask for.

The work depends on the number of elements, not on the number of constants (constant_flags.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.computed.constant_flags import ConstantFlags
from ray_pubsub.columns.computed.place_flags import PLACES, PlaceFlags
from ray_pubsub.columns.computed.single_terms import own_attributes
from ray_pubsub.kernels.computed.flags import distinct_flags, flags_by_row
from ray_pubsub.language.terms import ELEMENT, is_computed, uses_now
from ray_pubsub.language.tree import Holds, Tree
from ray_pubsub.model.event_batch import EventBatch, Flags, Lane, Plans, merged_lanes, split_number
from ray_pubsub.model.list_values import list_column
from ray_pubsub.model.values import Kind, Value

__all__ = ["ElementConditions", "ListFlags"]


class ElementConditions(Protocol):
    """An index of conditions on the elements of one list (index/element_conditions.py)."""

    def add(self, number: int, condition: Tree) -> None:
        """Adds a condition, with the flag that it raises."""

    def match(self, elements: EventBatch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns pairs of an element and a flag that it raises."""


class ListFlags:
    """The flags of list_contains, list_has_any and exists. It only grows; one thread adds, others may look up."""

    def __init__(self, conditions: Callable[[], ElementConditions]) -> None:
        """`conditions` creates an index for the conditions on one list."""
        self._make_conditions = conditions
        self._places = PlaceFlags()
        self._conditions: dict[str, ElementConditions] = {}
        self._timed: set[str] = set()
        """Lists with a condition on their elements that contains now()."""
        self._lists: dict[str, ConstantFlags] = {}
        """The constants of each list."""
        self._subjects: set[tuple[str, ...]] = set()
        self.attributes: set[str] = set()
        """The attributes of events on which the flags depend."""
        self.terms: list[str] = []
        """The terms, as opposed to attributes, that the functions read."""

    def add(self, number: int, leaf: Holds) -> None:
        """Adds a flag."""
        if leaf.attributes not in self._subjects:
            self._subjects.add(leaf.attributes)
            self.attributes |= own_attributes(leaf.attributes)
            self.terms = sorted({*self.terms, *filter(is_computed, leaf.attributes)})
        if leaf.function in PLACES:
            self._places.add(number, leaf)
            return
        if leaf.condition is not None:
            name = leaf.attributes[0]
            if name not in self._conditions:
                self._conditions[name] = self._make_conditions()
            if uses_now(leaf.condition):
                self._timed.add(name)
            self._conditions[name].add(number, leaf.condition)
            return
        name = leaf.attributes[0]
        if name not in self._lists:
            self._lists[name] = ConstantFlags()
        for constant in leaf.constants:
            assert constant.kind is not None
            self._lists[name].add(constant.kind, constant.plain, number)

    def settle(self) -> None:
        """Prepares for look-ups after flags were added."""
        self._places.settle()
        for constants in self._lists.values():
            constants.settle()

    def of_event(self, values: Mapping[str, Value], event: EventBatch) -> set[int]:
        """Returns the flags of one event, given its values."""
        found: set[int] = set()
        for name, value in values.items():
            if value.kind is not Kind.LIST:
                continue
            constants, conditions = self._lists.get(name), self._conditions.get(name)
            if constants is not None:
                for element in value.plain:
                    if isinstance(element, Value):
                        found.update(constants.of_element(element))
            if conditions is not None and value.plain:
                elements = self._as_events(name, list_column([value.plain]).elements, event)
                found.update(conditions.match(elements)[1].tolist())
        if self._places:
            lanes = {
                name: [Lane(name, value.kind, None, np.array([whole]), np.array([rest]))]
                for name, value in values.items()
                if value.kind is Kind.NUMBER
                for whole, rest in [split_number(value.plain)]
            }
            for _, number in self._places.of(lanes, 1):
                found.update(number.tolist())
        return found

    def of(self, lanes: Mapping[str, list[Lane]], batch: EventBatch) -> Flags | None:
        """Returns the flags of a batch, each once per row, given its lanes; None if no event has any."""
        parts = self._places.of(lanes, batch.size)
        for name, constants in list(self._lists.items()):
            parts += [_looked_up(lane, constants) for lane in lanes.get(name, ()) if lane.kind == Kind.LIST]
        for name, conditions in list(self._conditions.items()):
            for lane in lanes.get(name, ()):
                if lane.kind == Kind.LIST:
                    assert lane.lists is not None
                    elements = self._as_events(name, lane.lists.elements, batch)
                    element, number = conditions.match(elements)
                    parts.append(_once(_rows(lane, lane.lists.owners()[element]), number))
        rows, numbers = (np.concatenate(part) for part in zip(*parts, strict=True)) if parts else (NOTHING, NOTHING)
        if not len(rows):
            return None
        return Flags(*flags_by_row(rows, numbers, batch.size))

    def _as_events(self, name: str, elements: EventBatch, batch: EventBatch) -> EventBatch:
        """Returns the elements of a list as the conditions of `exists` see them, with now() set to the time of their events. What depends
        on the time is a copy, because an element batch may be shared by several events."""
        named = _named(elements)
        return replace(named, _moment=batch.moment, plans=Plans()) if name in self._timed else named


NOTHING = np.empty(0, np.int64)
NAMED = "named elements"


def _named(elements: EventBatch) -> EventBatch:
    """Returns the elements of a list with names for those that have none: an object has its own attributes, any other value becomes the
    attribute `element`. In a list's columns it has no name, so that functions of scalars cannot take an object's attribute for one. The
    result is kept with the elements."""
    if not any(lane.attribute == "" for lane in elements.lanes):
        return elements
    found: EventBatch | None = elements.plans.get(NAMED)
    if found is not None:
        return found
    others = [lane for lane in elements.lanes if lane.attribute != ""]
    named = [replace(lane, attribute=ELEMENT) for lane in elements.lanes if lane.attribute == ""]
    lanes = merged_lanes(others, named, np.arange(elements.size, dtype=np.int32), elements.size)
    found = replace(elements, lanes=lanes, plans=Plans(), _layout=None, _cells=None)
    return elements.plans.remember(NAMED, found)


def _rows(lane: Lane, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the rows of lists, given their positions in a lane that has its own lists only."""
    return places if lane.rows is None else lane.rows[places].astype(np.int64)


def _once(rows: NDArray[np.int64], numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Removes duplicate pairs; rows ascend."""
    keep = distinct_flags(rows, numbers)
    return (rows, numbers) if keep.all() else (rows[keep], numbers[keep])


def _looked_up(lane: Lane, constants: ConstantFlags) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns pairs of a row and a flag of its list; the lists must be in row order."""
    assert lane.lists is not None
    owner = lane.lists.owners()
    parts = []
    for elements in lane.lists.elements.lanes:
        if elements.attribute == "" and elements.kind != Kind.LIST:
            cell, number = constants.of_lane(elements)
            element = cell if elements.rows is None else elements.rows[cell]
            parts.append((_rows(lane, owner[element]), number))
    if not parts:
        return NOTHING, NOTHING
    found = [_once(*part) for part in parts]
    rows, numbers = (np.concatenate(part) for part in zip(*found, strict=True))
    if len(found) == 1 or not len(rows):
        return rows, numbers
    order = np.argsort(rows, kind="stable")  # elements and constants may be of several kinds
    return _once(rows[order], numbers[order])
