"""Converts the values of many short lanes together: all of one type at once, whatever attributes they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.model.dicts.values_by_type import NOT_ALL, reader_of
from ray_pubsub.model.event_batch import Lane
from ray_pubsub.model.text_column import TextBytes, TextColumn
from ray_pubsub.model.values import Kind

__all__ = ["ShortLanes", "short_lanes"]

PLAIN = {str: Kind.STRING, int: Kind.NUMBER, float: Kind.NUMBER, bool: Kind.BOOLEAN}
SEVERAL = -1
NO_BYTES = np.empty(0, np.uint8)


class ShortLanes(NamedTuple):
    """The values in the order of lanes."""

    kinds: list[int]
    """Of each lane; SEVERAL if its values have several."""
    whole: NDArray[np.int64]
    rest: NDArray[np.float64]
    has_rest: list[bool]
    """Whether a value of the lane has a rest."""
    strings: TextBytes

    def lane(self, number: int, name: str, rows: NDArray[np.int32] | None, first: int, last: int) -> Lane | None:
        """Returns a lane, which has the values first … last - 1; None if they are of several kinds."""
        kind = self.kinds[number]
        if kind == SEVERAL:
            return None
        if kind == Kind.STRING:
            data, start, stop = self.strings
            return Lane(
                name,
                Kind.STRING,
                rows,
                np.arange(last - first),
                strings=TextColumn(TextBytes(data, start[first:last], stop[first:last])),
            )
        rest = self.rest[first:last] if self.has_rest[number] else None
        return Lane(name, KINDS[kind], rows, self.whole[first:last], rest)


KINDS = tuple(Kind)


def short_lanes(values: Sequence[Any], order: NDArray[np.intp], cuts: list[int]) -> ShortLanes | None:
    """Returns the values in this order; lane i has those from cuts[i] to cuts[i + 1]. Returns None if they cannot be converted together."""
    types = list(map(type, values))
    found = set(types)
    if not found <= set(PLAIN):
        return None
    count = len(values)
    kind, whole, rest = np.empty(count, np.int64), np.zeros(count, np.int64), np.zeros(count)
    data, start, stop = NO_BYTES, np.zeros(count, np.int64), np.zeros(count, np.int64)
    for type_ in found:
        mine: Any = slice(None)
        chosen = values
        if len(found) > 1:
            mine = np.fromiter((each is type_ for each in types), np.bool_, count)
            chosen = list(compress(values, mine.tolist()))
        reader = reader_of(type_)
        assert reader is not None, "a plain type has a reader"
        try:
            converted = reader(chosen)
        except NOT_ALL:
            return None
        if converted.places is not None:
            return None
        kind[mine] = int(converted.kind)
        if converted.strings is not None:
            data, start[mine], stop[mine] = converted.strings.bytes
        else:
            whole[mine] = converted.whole
            if converted.rest is not None:
                rest[mine] = converted.rest
    kind, rest, start, stop = kind[order], rest[order], start[order], stop[order]
    start.flags.writeable = stop.flags.writeable = False
    firsts = np.array(cuts[:-1])
    least, largest = np.minimum.reduceat(kind, firsts), np.maximum.reduceat(kind, firsts)
    kinds = np.where(least == largest, least, SEVERAL).tolist()
    has_rest = np.logical_or.reduceat(rest != 0, firsts).tolist()
    return ShortLanes(kinds, whole[order], rest, has_rest, TextBytes(data, start, stop))
