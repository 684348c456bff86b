"""Converts the Python values of one attribute to lanes. Mostly a column has one type, and is then converted at once; a column of several
types is cut into one list for each (values_by_type.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.model.dicts.values_by_type import NOT_ALL, Converted, Reader, reader_of, small_numbers
from ray_pubsub.model.event_batch import (
    NO_IDS,
    OBJECT,
    EventBatch,
    Lane,
    ListColumn,
    joined_lanes,
    split_floats,
)
from ray_pubsub.model.list_values import list_column
from ray_pubsub.model.problems import Problems
from ray_pubsub.model.text_column import TextColumn
from ray_pubsub.model.values import READERS, Kind, Value, ValueProblem, read_value
from ray_pubsub.settings import LIST_ELEMENTS

__all__ = ["Rows", "lanes_of_results", "lanes_of_values"]

Rows = NDArray[np.int32] | None
"""The row of each value, ascending; None if every row has one."""
NOTHING = type(None)


def lanes_of_values(attribute: str, values: list[Any], rows: Rows, problems: Problems) -> list[Lane]:
    """Returns a lane for each kind that occurs. None, NaN and dictionaries are absent: attributes inside a dictionary have other names.
    A value of any other type is a problem of its row; the first problem of a row counts."""
    if len(values) and type(values[0]) is str:
        try:
            return [_string_lane(attribute, values, rows)]
        except (TypeError, UnicodeEncodeError):  # there is another type, or a lone surrogate
            pass
    types = set(map(type, values))
    if float in types and types <= NUMBERS_OR_NOTHING:
        try:
            numbers = small_numbers(values)
            if numbers is not None:
                return [_lane_of(attribute, numbers, rows)]
        except NOT_ALL:
            pass
    if NOTHING in types:
        places = [place for place, value in enumerate(values) if value is not None]
        values = [values[place] for place in places]
        rows = _chosen(rows, places)
        types.discard(NOTHING)
    if not types:
        return []
    reader = reader_of(next(iter(types))) if len(types) == 1 else None
    if reader is not None:
        try:
            return [_lane_of(attribute, reader(values), rows)]
        except NOT_ALL:
            pass
    if types <= LISTS:
        plain = values if np.ndarray not in types else _arrays_as_lists(values)
        lane = None if plain is None else _list_lane(attribute, plain, rows)
        if lane is not None:
            return [lane]
    return _mixed(attribute, values, rows, problems)


NUMBERS_OR_NOTHING = {int, float, NOTHING}
LISTS = {list, tuple, np.ndarray}


def _list_lane(attribute: str, values: list[Any], rows: Rows) -> Lane | None:
    """Returns a lane of lists of plain values, or of flat dictionaries of those, converted all at once; None if they contain anything
    else."""
    lengths = [len(value) for value in values]
    if max(lengths) > LIST_ELEMENTS:
        return None
    elements = list(chain.from_iterable(values))
    types = set(map(type, elements))
    problems = Problems()
    if types == {dict}:
        lanes = _lanes_of_objects(elements, problems)
    else:
        lanes = lanes_of_values("", elements, None, problems) if _are_plain(types) else None
    if lanes is None or problems:
        return None
    offsets = np.cumsum([0, *lengths])
    lists = ListColumn(offsets, EventBatch(len(elements), lanes, NO_IDS))
    return Lane(attribute, Kind.LIST, rows, np.arange(len(values)), lists=lists)


def _arrays_as_lists(values: list[Any]) -> list[Any] | None:
    """Returns the values with lists in place of arrays; None if an array is not simply a list of values."""
    if any(isinstance(value, np.ndarray) and (value.ndim != 1 or value.dtype.kind in "Mm") for value in values):
        return None
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in values]


def _lanes_of_objects(elements: list[dict[Any, Any]], problems: Problems) -> list[Lane] | None:
    found: dict[Any, tuple[list[int], list[Any]]] = {}
    for place, element in enumerate(elements):
        for name, value in element.items():
            cells = found.get(name)
            if cells is None:
                cells = found[name] = ([], [])
            cells[0].append(place)
            cells[1].append(value)
    lanes = [Lane(OBJECT, Kind.BOOLEAN, None, np.ones(len(elements), np.int64))]
    for name, (places, values) in found.items():
        rows = None if len(places) == len(elements) else np.array(places, dtype=np.int32)
        if type(name) is not str or name == OBJECT or not _are_plain(set(map(type, values))):
            return None
        lanes += lanes_of_values(name, values, rows, problems)
    return lanes


def _are_plain(types: set[type]) -> bool:
    """Returns whether no value of these types is a list or a dictionary."""
    return all(type_ is NOTHING or reader_of(type_) is not None for type_ in types)


def _mixed(attribute: str, values: list[Any], rows: Rows, problems: Problems) -> list[Lane]:
    """Converts values of several types: all of a type at once, or one by one where that is not possible. Lists are read one by one."""
    readers: dict[Reader | None, int] = {}
    number_of_type: dict[type, int] = {}
    for type_ in dict.fromkeys(map(type, values)):
        number_of_type[type_] = readers.setdefault(reader_of(type_), len(readers))
    which = np.fromiter(map(number_of_type.__getitem__, map(type, values)), np.intp, len(values))
    found: dict[Kind, list[tuple[NDArray[np.intp], Lane]]] = {}
    for reader, number in readers.items():
        mine = which == number
        places, chosen = np.flatnonzero(mine), list(compress(values, mine.tolist()))
        for lane in _read_together(attribute, reader, chosen, places, rows, problems):
            where = places if lane.rows is None else places[lane.rows]
            found.setdefault(lane.kind, []).append((where, lane))
    lanes = []
    for parts in found.values():
        lane = _merged([replace(lane, rows=where.astype(np.int32)) for where, lane in parts])
        lanes.append(replace(lane, rows=rows if len(lane) == len(values) else _chosen(rows, lane.rows)))
    return lanes


def _read_together(
    attribute: str, reader: Reader | None, values: list[Any], places: NDArray[np.intp], rows: Rows, problems: Problems
) -> list[Lane]:
    """Returns the lanes of some values of a column, which are at these places of it. The rows of the lanes are numbers of `values`."""
    if reader is not None:
        try:
            return [_lane_of(attribute, reader(values), None)]
        except NOT_ALL:
            pass
    found: dict[Kind, tuple[list[int], list[Any]]] = {}
    for number, raw in enumerate(values):
        try:
            value = read_value(raw)
        except ValueProblem as problem:
            if not isinstance(raw, Mapping):
                place = int(places[number])
                problems.unusable(place if rows is None else int(rows[place]), attribute, str(problem))
            continue
        if value is not None:
            numbers, plains = found.setdefault(value.kind, ([], []))
            numbers.append(number)
            plains.append(value.plain)
    return [_lane(attribute, kind, plains, _chosen(None, numbers)) for kind, (numbers, plains) in found.items()]


def _merged(lanes: list[Lane]) -> Lane:
    """Returns lanes of one attribute and kind as one, its rows ascending."""
    if len(lanes) == 1:
        return lanes[0]
    lane = joined_lanes(lanes)
    order = np.argsort(lane.rows, kind="stable")  # type: ignore[arg-type]
    rest = None if lane.rest is None else lane.rest[order]
    return replace(lane, rows=lane.rows[order], whole=lane.whole[order], rest=rest)  # type: ignore[index]


def _lane_of(attribute: str, found: Converted, rows: Rows) -> Lane:
    if found.places is not None:
        rows = _chosen(rows, found.places)
    return Lane(attribute, found.kind, rows, found.whole, found.rest, found.strings)


def lanes_of_results(attribute: str, values: Sequence[Value | None], number: NDArray[np.int64]) -> list[Lane]:
    """Returns the lanes of a column whose row i has the value `values[number[i]]`, for few distinct values and many rows."""
    lanes = []
    for kind in {value.kind for value in values if value is not None}:
        mine = [place for place, value in enumerate(values) if value is not None and value.kind is kind]
        position = np.full(len(values), -1, np.int64)
        position[mine] = np.arange(len(mine))
        place = position[number]
        rows: Rows = None
        if place.min(initial=0) < 0:
            rows = np.flatnonzero(place >= 0).astype(np.int32)
            place = place[rows]
        few = _lane(attribute, kind, [values[at].plain for at in mine], None)  # type: ignore[union-attr]
        rest = None if few.rest is None else few.rest[place]
        lanes.append(Lane(attribute, kind, rows, few.whole[place], rest, few.strings, few.lists))
    return lanes


def _lane(attribute: str, kind: Kind, plains: list[Any], rows: Rows) -> Lane:
    if kind == Kind.STRING:
        return _string_lane(attribute, plains, rows)
    if kind == Kind.LIST:
        return Lane(attribute, kind, rows, np.arange(len(plains)), lists=list_column(plains))
    if kind == Kind.NUMBER and not all(type(plain) is int for plain in plains):
        return Lane(attribute, kind, rows, *_split_mixed(plains))
    return Lane(attribute, kind, rows, np.array(plains, dtype=np.int64))


def _string_lane(attribute: str, values: Sequence[str], rows: Rows) -> Lane:
    return Lane(attribute, Kind.STRING, rows, np.arange(len(values)), strings=TextColumn.encoded(values))


def _split_mixed(numbers: Sequence[int | float]) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    """Splits mixed numbers. Ints keep all their 64 bits, because only the floats go through float64."""
    is_float = np.array([isinstance(number, float) for number in numbers])
    whole = np.array([0 if isinstance(number, float) else number for number in numbers], dtype=np.int64)
    rest = np.zeros(len(numbers))
    floats = np.array([number for number in numbers if isinstance(number, float)], dtype=np.float64)
    whole[is_float], float_rest = split_floats(floats)
    if float_rest is None:
        return whole, None
    rest[is_float] = float_rest
    return whole, rest


def _chosen(rows: Rows, places: Any) -> NDArray[np.int32]:
    return np.array(places, dtype=np.int32) if rows is None else rows[places]


assert dict not in READERS, "a dictionary is never a value"
