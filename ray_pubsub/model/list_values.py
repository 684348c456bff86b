"""Converts lists of values, in the form of the scan and of single events, to columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from ray_pubsub.model.event_batch import NO_IDS, OBJECT, EventBatch, Lane, ListColumn, split_number
from ray_pubsub.model.text_column import TextColumn
from ray_pubsub.model.values import Kind, Value

__all__ = ["list_column"]

NULL: dict[str, Value] = {}
TRUE = Value(Kind.BOOLEAN, True)


def list_column(lists: Sequence[tuple[Any, ...]]) -> ListColumn:
    """Returns the column of lists that are in the form of values.py."""
    offsets = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    found: dict[tuple[str, Kind], tuple[list[int], list[Any]]] = {}
    for row, element in enumerate(chain.from_iterable(lists)):
        values = {"": element} if isinstance(element, Value) else NULL if element is None else {**element, OBJECT: TRUE}
        for name, value in values.items():
            rows, plains = found.setdefault((name, value.kind), ([], []))
            rows.append(row)
            plains.append(value.plain)
    lanes = [_lane(name, kind, rows, plains) for (name, kind), (rows, plains) in found.items()]
    return ListColumn(offsets, EventBatch(int(offsets[-1]), lanes, NO_IDS))


def _lane(name: str, kind: Kind, rows: list[int], plains: list[Any]) -> Lane:
    places = np.array(rows, np.int32)
    if kind == Kind.STRING:
        return Lane(name, kind, places, np.arange(len(rows)), strings=TextColumn(None, plains))
    if kind == Kind.LIST:
        return Lane(name, kind, places, np.arange(len(rows)), lists=list_column(plains))
    pairs = [split_number(plain) if kind == Kind.NUMBER else (int(plain), 0.0) for plain in plains]
    rest = np.array([pair[1] for pair in pairs])
    return Lane(name, kind, places, np.array([pair[0] for pair in pairs], np.int64), rest if rest.any() else None)
