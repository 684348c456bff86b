"""Reads dictionaries that each have a few of many attributes: all their values are put in one list, ordered by attribute, and then cut
into lanes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, compress, pairwise, repeat
from typing import Any

import numpy as np

from ray_pubsub.model.attribute_tree import AttributeTree
from ray_pubsub.model.event_batch import Lane
from ray_pubsub.model.problems import Problems
from ray_pubsub.model.text_column import TextBytes, TextColumn
from ray_pubsub.model.value_column import lanes_of_values
from ray_pubsub.model.values import Kind

__all__ = ["sparse_lanes"]


def sparse_lanes(events: Sequence[Any], attributes: AttributeTree, problems: Problems) -> list[Lane]:
    """Returns the lanes of attributes that are not nested. All events must be plain dictionaries.

    There is no Python step per value, and none per event and attribute: strings take less than half the time of appending to lists.
    """
    names = attributes.listed()
    numbers = {name: number for number, name in enumerate(names)}
    count = sum(map(len, events))
    which = np.fromiter(map(numbers.get, chain.from_iterable(events), repeat(-1)), np.int32, count)
    values: list[Any] = list(chain.from_iterable(map(dict.values, events)))
    row = np.repeat(np.arange(len(events), dtype=np.int32), np.fromiter(map(len, events), np.int64))
    tested = which >= 0
    if not tested.all():
        values, which, row = list(compress(values, tested.tolist())), which[tested], row[tested]
    # Numpy sorts 16-bit numbers by radix. Strings are encoded before sorting, so that their positions are moved and not the strings.
    order = np.argsort(which.astype(np.int16) if len(names) < 2**15 else which, kind="stable")
    encoded = _encoded(values)
    which, row = which[order], row[order]
    cuts = [0, *(np.flatnonzero(np.diff(which)) + 1).tolist(), len(values)] if values else []
    if encoded is None:
        ordered = np.fromiter(values, object, len(values))[order].tolist()
    else:
        data, start, stop = encoded.data, encoded.start[order], encoded.stop[order]
        start.flags.writeable = stop.flags.writeable = False
    places = np.arange(len(events))
    lanes: list[Lane] = []
    for first, last in pairwise(cuts):
        name = names[which[first]]
        mine = None if last - first == len(events) else row[first:last]
        if encoded is None:
            lanes += lanes_of_values(name, ordered[first:last], mine, problems)
        else:
            strings = TextColumn(TextBytes(data, start[first:last], stop[first:last]))
            lanes.append(Lane(name, Kind.STRING, mine, places[: last - first], strings=strings))
    return lanes


def _encoded(values: list[Any]) -> TextBytes | None:
    """Returns the values as bytes if all are strings, otherwise None."""
    if not values or type(values[0]) is not str:
        return None
    try:
        return TextColumn.encoded(values).bytes
    except (TypeError, UnicodeEncodeError):
        return None
