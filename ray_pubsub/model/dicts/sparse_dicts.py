"""Reads dictionaries that each have a few of many attributes: all their values are put in one list, ordered by attribute, and then cut
into lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, compress, pairwise, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.model.attribute_tree import AttributeNode, AttributeTree
from ray_pubsub.model.dicts.short_lanes import short_lanes
from ray_pubsub.model.dicts.value_column import lanes_of_values
from ray_pubsub.model.event_batch import Lane
from ray_pubsub.model.problems import Problems
from ray_pubsub.model.text_column import TextBytes, TextColumn
from ray_pubsub.model.values import READERS, Kind
from ray_pubsub.settings import EVENT_DEPTH

__all__ = ["sparse_lanes"]

FEWEST_LANES, SHORT = 64, 64
"""The values of many lanes are converted together, if lanes have fewer values than this on average: to convert those of one lane takes ten
microseconds, however few they are."""
FEW = 24
"""Below this many dictionaries, arrays take longer than a Python step per value."""


def sparse_lanes(events: Sequence[Any], attributes: AttributeTree, problems: Problems) -> list[Lane] | None:
    """Returns the lanes of the attributes. All events must be plain dictionaries. Returns None for events that have to be read another
    way: with an attribute in two places of one event, with a mapping of another type inside, or nested too deeply.

    There is no Python step per value, and none per event and attribute: strings take less than half the time of appending to lists.
    """
    names = attributes.listed()
    cells = _Cells({name: number for number, name in enumerate(names)})
    rows = np.arange(len(events), dtype=np.int32)
    level: list[tuple[str | None, Sequence[Any], NDArray[np.int32]]] = [(None, events, rows)]
    for depth in range(EVENT_DEPTH + 2):
        if depth > EVENT_DEPTH and level:
            return None
        for prefix, dicts, mine in level:
            if not cells.add(dicts, mine, attributes.node(prefix), few=depth > 0 and len(dicts) < FEW):
                return None
        level = cells.inner()
    values, which, row = cells.joined()
    # Numpy sorts 16-bit numbers by radix. Strings are encoded before sorting, so that their positions are moved and not the strings.
    order = np.argsort(which.astype(np.int16) if len(names) < 2**15 else which, kind="stable")
    if cells.parts > 1 and not _ascend(which[order], row[order]):
        order = np.lexsort((row, which))
        if not _ascend(which[order], row[order]):
            return None
    which, row = which[order], row[order]
    cuts = [0, *(np.flatnonzero(np.diff(which)) + 1).tolist(), len(values)] if values else []
    together = (
        short_lanes(values, order, cuts) if len(cuts) > FEWEST_LANES and len(values) < SHORT * len(cuts) else None
    )
    encoded = _encoded(values) if together is None else None
    ordered: list[Any] = []
    if encoded is not None:
        data, start, stop = encoded.data, encoded.start[order], encoded.stop[order]
        start.flags.writeable = stop.flags.writeable = False
    elif together is None:
        ordered = np.fromiter(values, object, len(values))[order].tolist()
    places = np.arange(len(events))
    lanes: list[Lane] = []
    for number, (first, last) in enumerate(pairwise(cuts)):
        name = names[which[first]]
        mine_or_all = None if last - first == len(events) else row[first:last]
        if together is not None and (lane := together.lane(number, name, mine_or_all, first, last)) is not None:
            lanes.append(lane)
        elif encoded is not None:
            strings = TextColumn(TextBytes(data, start[first:last], stop[first:last]))
            lanes.append(Lane(name, Kind.STRING, mine_or_all, places[: last - first], strings=strings))
        else:
            mixed = ordered[first:last] or [values[place] for place in order[first:last].tolist()]
            lanes += lanes_of_values(name, mixed, mine_or_all, problems)
    return lanes


class _Cells:
    """The values found so far, each with the number of its attribute and its row."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self.parts = 0
        """The number of places that values come from. The rows of one place ascend."""
        self._numbers = numbers
        self._values: list[Any] = []
        self._which: list[NDArray[np.int32]] = []
        self._rows: list[NDArray[np.int32]] = []
        self._inner: dict[str, tuple[list[Any], list[NDArray[np.int32]]]] = {}

    def add(self, dicts: Sequence[Any], rows: NDArray[np.int32], node: AttributeNode, few: bool) -> bool:
        """Adds the values of the attributes of a node. Returns False if there is a mapping that is not a plain dictionary."""
        self.parts += 1
        return self._add_few(dicts, rows, node) if few else self._add_many(dicts, rows, node)

    def inner(self) -> list[tuple[str | None, Sequence[Any], NDArray[np.int32]]]:
        """Returns the dictionaries that were found inside those added, by prefix, and forgets them."""
        found, self._inner = self._inner, {}
        return [(prefix, dicts, np.concatenate(rows)) for prefix, (dicts, rows) in found.items()]

    def joined(self) -> tuple[list[Any], NDArray[np.int32], NDArray[np.int32]]:
        return self._values, np.concatenate(self._which), np.concatenate(self._rows)

    def _add_many(self, dicts: Sequence[Any], rows: NDArray[np.int32], node: AttributeNode) -> bool:
        prefixes = list(node.prefixes.items())
        tested_keys = list(node.attributes.items())
        numbers = [self._numbers.get(name, -1) for _, name in tested_keys]
        entry_of = {key: entry for entry, (key, _) in enumerate(tested_keys)}
        for key, _ in prefixes:
            if key not in entry_of:
                entry_of[key] = len(entry_of)
                numbers.append(-1)
        count = sum(map(len, dicts))
        entry = np.fromiter(map(entry_of.get, chain.from_iterable(dicts), repeat(-1)), np.int32, count)
        values: list[Any] = list(chain.from_iterable(map(dict.values, dicts)))
        row = np.repeat(rows, np.fromiter(map(len, dicts), np.int64, len(dicts)))
        number_of = np.array([*numbers, -1], dtype=np.int32)  # the last one is for keys that are not tested
        if prefixes:
            prefix_of = np.full(len(entry_of) + 1, -1, np.int32)
            prefix_of[[entry_of[key] for key, _ in prefixes]] = np.arange(len(prefixes))
            if not self._lead(values, prefix_of[entry], row, [prefix for _, prefix in prefixes]):
                return False
        which = number_of[entry]
        tested = which >= 0
        if not tested.all():
            values, which, row = list(compress(values, tested.tolist())), which[tested], row[tested]
        self._values += values
        self._which.append(which)
        self._rows.append(row)
        return True

    def _lead(self, values: list[Any], which: NDArray[np.int32], row: NDArray[np.int32], prefixes: list[str]) -> bool:
        """Notes the dictionaries among the values; `which` has the number of each value's prefix, or -1."""
        places = np.flatnonzero(which >= 0)
        places = places[np.argsort(which[places], kind="stable")]
        found = [values[place] for place in places.tolist()]
        types = set(map(type, found))
        if types - {dict}:
            if any(type_ is not dict and type_ not in READERS and issubclass(type_, Mapping) for type_ in types):
                return False
            places = places[[type(value) is dict for value in found]]
            found = [value for value in found if type(value) is dict]
        ordered, mine = which[places], row[places]
        cuts = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), len(found)] if found else []
        for first, last in pairwise(cuts):
            dicts, rows = self._inner.setdefault(prefixes[ordered[first]], ([], []))
            dicts += found[first:last]
            rows.append(mine[first:last])
        return True

    def _add_few(self, dicts: Sequence[Any], rows: NDArray[np.int32], node: AttributeNode) -> bool:
        which: list[int] = []
        found: list[int] = []
        for row, event in zip(rows.tolist(), dicts, strict=True):
            for key, raw in event.items():
                number = self._numbers.get(node.attributes.get(key, ""), -1)
                if key in node.attributes and number >= 0:
                    self._values.append(raw)
                    which.append(number)
                    found.append(row)
                if key in node.prefixes and type(raw) not in READERS and isinstance(raw, Mapping):
                    if type(raw) is not dict:
                        return False
                    inner, places = self._inner.setdefault(node.prefixes[key], ([], []))
                    inner.append(raw)
                    places.append(np.array([row], np.int32))
        self._which.append(np.array(which, dtype=np.int32))
        self._rows.append(np.array(found, dtype=np.int32))
        return True


def _ascend(which: NDArray[np.int32], row: NDArray[np.int32]) -> bool:
    """Returns whether the rows of each attribute ascend."""
    return not ((which[1:] == which[:-1]) & (row[1:] <= row[:-1])).any()


def _encoded(values: list[Any]) -> TextBytes | None:
    """Returns the values as bytes if all are strings, otherwise None."""
    if not values or type(values[0]) is not str:
        return None
    try:
        return TextColumn.encoded(values).bytes
    except (TypeError, UnicodeEncodeError):
        return None
