"""Converts the Python values of one attribute to lanes. Mostly a column has one type, and is then converted at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.model.event_batch import NO_IDS, EventBatch, Lane, ListColumn, split_floats
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
    if NOTHING in types:
        places = [place for place, value in enumerate(values) if value is not None]
        if not places:
            return []
        values = [values[place] for place in places]
        rows = _chosen(rows, places)
        types.discard(NOTHING)
    try:
        if types == {str}:
            return [_string_lane(attribute, values, rows)]
        if types == {int}:
            return [Lane(attribute, Kind.NUMBER, rows, np.array(values, dtype=np.int64))]
        if types == {float}:
            return [_float_lane(attribute, np.array(values), rows)]
        if types == {bool}:
            return [Lane(attribute, Kind.BOOLEAN, rows, np.array(values, dtype=np.int64))]
    except (OverflowError, UnicodeEncodeError):
        pass
    if types == {list}:
        lane = _list_lane(attribute, values, rows)
        if lane is not None:
            return [lane]
    return _mixed(attribute, values, rows, problems)


SCALARS = {str, int, float, bool, NOTHING}


def _list_lane(attribute: str, values: list[Any], rows: Rows) -> Lane | None:
    """Returns a lane of lists of plain values, converted all at once, or None if they contain anything else."""
    lengths = [len(value) for value in values]
    elements = list(chain.from_iterable(values))
    if max(lengths) > LIST_ELEMENTS or not set(map(type, elements)) <= SCALARS:
        return None
    problems = Problems()
    lanes = lanes_of_values("", elements, None, problems)
    if problems:
        return None
    offsets = np.cumsum([0, *lengths])
    lists = ListColumn(offsets, EventBatch(len(elements), lanes, NO_IDS))
    return Lane(attribute, Kind.LIST, rows, np.arange(len(values)), lists=lists)


def _mixed(attribute: str, values: list[Any], rows: Rows, problems: Problems) -> list[Lane]:
    """Converts value by value."""
    found: dict[Kind, tuple[list[int], list[Any]]] = {}
    for place, raw in enumerate(values):
        try:
            value = read_value(raw)
        except ValueProblem as problem:
            if not isinstance(raw, Mapping):
                problems.unusable(place if rows is None else int(rows[place]), attribute, str(problem))
            continue
        if value is not None:
            places, plains = found.setdefault(value.kind, ([], []))
            places.append(place)
            plains.append(value.plain)
    return [
        _lane(attribute, kind, plains, rows if len(places) == len(values) else _chosen(rows, places))
        for kind, (places, plains) in found.items()
    ]


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


def _float_lane(attribute: str, values: NDArray[np.float64], rows: Rows) -> Lane:
    number = values == values
    if not number.all():  # NaN is absent
        where = np.flatnonzero(number)
        values, rows = values[where], _chosen(rows, where)
    return Lane(attribute, Kind.NUMBER, rows, *split_floats(values))


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
