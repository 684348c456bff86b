"""The meaning of the functions that are true or false of attributes and constants (`Holds` in the tree). Part of the specification.

Lists: nulls and elements of another kind than the constant's are skipped, so for an existing list every answer is true or false.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ray_pubsub.language.functions.networks import in_network
from ray_pubsub.language.functions.places import contains, is_place
from ray_pubsub.language.functions.table import scalars_of
from ray_pubsub.language.terms import ELEMENT, NOW
from ray_pubsub.language.tree import Holds, Operand, Tree
from ray_pubsub.model.values import Kind, Value

__all__ = ["QUANTIFIERS", "holds"]

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
QUANTIFIERS = {f"{symbol} {quantifier}" for symbol in COMPARE for quantifier in ("any", "all")}
"""`5 < any(scores)` is the function "< any" of scores and 5."""
Truth = Callable[[Tree, Mapping[str, Value]], bool | None]


def holds(leaf: Holds, values: list[Value | None], truth: Truth, moment: Value | None) -> bool | None:
    """Returns whether the function is true, false or unknown (None) of these values of its attributes. `moment`: the value of now()."""
    if leaf.function in ("geo_within", "geo_in_polygon", "geo_in_box"):
        return _in_shape(leaf, *values)
    if leaf.function == "ip_in":
        return _in_networks(leaf, values[0])
    if leaf.function in LISTS or leaf.function in QUANTIFIERS:
        value = values[0]
        if value is None or value.kind is not Kind.LIST:
            return None
        return _of_list(leaf, value.plain, truth, moment)
    raise AssertionError(f"not a function: {leaf.function}")


def _in_networks(leaf: Holds, value: Value | None) -> bool | None:
    if value is None or value.kind is not Kind.STRING:
        return None
    answers = [in_network(value.plain, network.plain) for network in leaf.constants]
    return None if None in answers else any(answers)


def _in_shape(leaf: Holds, latitude: Value | None, longitude: Value | None) -> bool | None:
    """Returns unknown (None) if the two are not a valid place."""
    if latitude is None or longitude is None or not latitude.kind is longitude.kind is Kind.NUMBER:
        return None
    if not is_place(latitude.plain, longitude.plain):
        return None
    constants = tuple(constant.plain for constant in leaf.constants)
    if leaf.function == "geo_in_box":
        south, west, north, east = constants
        within = west <= longitude.plain <= east if west <= east else longitude.plain >= west or longitude.plain <= east
        return bool(south <= latitude.plain <= north and within)
    place = np.array([float(latitude.plain)]), np.array([float(longitude.plain)])
    return bool(contains((leaf.function, constants), *place)[0])


LISTS = {"list_contains", "list_has_any", "list_has_all", "exists"}


def _of_list(leaf: Holds, elements: tuple[Any, ...], truth: Truth, moment: Value | None) -> bool | None:
    match leaf.function:
        case "exists":
            assert leaf.condition is not None
            condition = leaf.condition
            events = (as_event(element, moment) for element in elements if element is not None)
            return any(truth(condition, event) is True for event in events)
        case "list_has_any":
            present = scalars_of(elements)
            return any(
                constant.plain in present.get(constant.kind, ())
                for constant in leaf.constants
                if constant.kind is not None
            )
        case "list_has_all":
            present = scalars_of(elements)
            return all(
                constant.plain in present.get(constant.kind, ())
                for constant in leaf.constants
                if constant.kind is not None
            )
    constant = leaf.constants[0]
    if constant.kind is None:
        return None
    if leaf.function == "list_contains":
        return _contains(elements, constant)
    symbol, quantifier = leaf.function.split()
    answers = [
        COMPARE[symbol](constant.plain, element.plain)
        for element in elements
        if isinstance(element, Value) and element.kind is constant.kind
    ]
    return any(answers) if quantifier == "any" else all(answers)


def _contains(elements: tuple[Any, ...], constant: Operand) -> bool:
    return any(
        isinstance(element, Value) and element.kind is constant.kind and element.plain == constant.plain
        for element in elements
    )


def as_event(element: Any, moment: Value | None) -> Mapping[str, Value]:
    """Returns an element as `exists` sees it: an object by its attributes; any other value as the attribute `element`."""
    values = {ELEMENT: element} if isinstance(element, Value) else element
    return values if moment is None else {**values, NOW: moment}
