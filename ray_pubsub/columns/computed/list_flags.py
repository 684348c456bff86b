"""Tests of constants on lists, all at once: each element of a batch's lists is looked up among the constants that subscriptions ask for.

The work is that of the elements, however many constants there are (constant_flags.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.computed.constant_flags import ConstantFlags
from ray_pubsub.columns.computed.place_flags import PLACES, PlaceFlags
from ray_pubsub.kernels.computed.flags import distinct_flags, flags_by_row
from ray_pubsub.language.terms import is_computed, uses_now
from ray_pubsub.language.tree import Holds, Tree
from ray_pubsub.model.event_batch import EventBatch, Flags, Lane, Plans, split_number
from ray_pubsub.model.list_values import list_column
from ray_pubsub.model.values import Kind, Value

__all__ = ["ElementConditions", "ListFlags"]


class ElementConditions(Protocol):
    """Conditions on the elements of one list, of which those are found that hold (index/element_conditions.py)."""

    def add(self, number: int, condition: Tree) -> None:
        """One more, with the flag that it raises."""

    def match(self, elements: EventBatch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Elements and the flags that they raise, pair by pair."""


class ListFlags:
    """The flags of list_contains, list_has_any and exists. Only grows; one thread adds, others may look up."""

    def __init__(self, conditions: Callable[[], ElementConditions]) -> None:
        """`conditions`: makes an index for the conditions on one list."""
        self._make_conditions = conditions
        self._places = PlaceFlags()
        self._conditions: dict[str, ElementConditions] = {}
        self._timed: set[str] = set()
        """Lists of which a condition on the elements has now()."""
        self._lists: dict[str, ConstantFlags] = {}
        """By list."""

    def add(self, number: int, leaf: Holds) -> None:
        """One more flag."""
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
        """After flags were added: prepares to look up."""
        self._places.settle()
        for constants in self._lists.values():
            constants.settle()

    @property
    def terms(self) -> list[str]:
        """What the functions look at, if it is a term and not an attribute."""
        names = {*self._lists, *self._conditions, *self._places.names}
        return [name for name in names if is_computed(name)]

    def of_event(self, values: Mapping[str, Value], event: EventBatch) -> set[int]:
        """The flags of one event, by its values."""
        found: set[int] = set()
        for name, constants in list(self._lists.items()):
            value = values.get(name)
            if value is None or value.kind is not Kind.LIST:
                continue
            for element in value.plain:
                if isinstance(element, Value):
                    found.update(constants.of_element(element))
        for name, conditions in list(self._conditions.items()):
            value = values.get(name)
            if value is not None and value.kind is Kind.LIST and value.plain:
                elements = self._with_moment(name, list_column([value.plain]).elements, event)
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
        """The flags of a batch, each once per row, by its lanes; None if no event has any."""
        parts = self._places.of(lanes, batch.size)
        for name, constants in list(self._lists.items()):
            parts += [_looked_up(lane, constants) for lane in lanes.get(name, ()) if lane.kind == Kind.LIST]
        for name, conditions in list(self._conditions.items()):
            for lane in lanes.get(name, ()):
                if lane.kind == Kind.LIST:
                    assert lane.lists is not None
                    elements = self._with_moment(name, lane.lists.elements, batch)
                    element, number = conditions.match(elements)
                    parts.append(_once(_rows(lane, lane.lists.owners()[element]), number))
        rows, numbers = (np.concatenate(part) for part in zip(*parts, strict=True)) if parts else (NOTHING, NOTHING)
        if not len(rows):
            return None
        return Flags(*flags_by_row(rows, numbers, batch.size))

    def _with_moment(self, name: str, elements: EventBatch, batch: EventBatch) -> EventBatch:
        """The elements of a list, for which now() is what it is for their events. A copy: an element batch may belong to several events."""
        return replace(elements, _moment=batch.moment, plans=Plans()) if name in self._timed else elements


NOTHING = np.empty(0, np.int64)


def _rows(lane: Lane, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows of lists, by their places in a lane that has its own lists only."""
    return places if lane.rows is None else lane.rows[places].astype(np.int64)


def _once(rows: NDArray[np.int64], numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each pair once; rows ascend."""
    keep = distinct_flags(rows, numbers)
    return (rows, numbers) if keep.all() else (rows[keep], numbers[keep])


def _looked_up(lane: Lane, constants: ConstantFlags) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and the flags of their lists, which are in the order of the rows."""
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
    order = np.argsort(rows, kind="stable")  # elements of several kinds, which a list of constants may have too
    return _once(rows[order], numbers[order])
