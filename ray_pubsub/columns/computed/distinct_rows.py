"""Finds the distinct combinations of values that events have in a few attributes, so that a term is evaluated once per combination."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.string_hashes import distinct_of
from ray_pubsub.model.event_batch import Lane
from ray_pubsub.model.values import Kind, Value

__all__ = ["distinct_rows"]


def distinct_rows(
    attributes: Sequence[str], lanes: dict[str, list[Lane]], size: int
) -> tuple[NDArray[np.int64], list[dict[str, Value]]]:
    """Returns the number of each row's combination, and the combinations as events."""
    codes, values = [], []
    for name in attributes:
        code, found = _coded(lanes.get(name, []), size)
        codes.append(code)
        values.append(found)
    if not codes:
        return np.zeros(size, np.int64), [{}]
    # Combinations are numbers in a mixed radix, with -1 (absent) as digit 0. If they do not fit into 64 bits, the digits are renumbered.
    joined = codes[0] + 1
    for code, found in zip(codes[1:], values[1:], strict=True):
        _, joined = np.unique(joined, return_inverse=True)
        joined = joined.reshape(-1) * (len(found) + 1) + code + 1
    _, first, number = np.unique(joined, return_index=True, return_inverse=True)
    events = []
    for row in first.tolist():
        picked = ((name, int(code[row]), found) for name, code, found in zip(attributes, codes, values, strict=True))
        events.append({name: found[code] for name, code, found in picked if code >= 0})
    return number.reshape(-1), events


def _coded(lanes: list[Lane], size: int) -> tuple[NDArray[np.int64], list[Value]]:
    """Returns the number of each row's value (-1 if it has none), and the values."""
    code = np.full(size, -1, np.int64)
    values: list[Value] = []
    for lane in lanes:
        rows = slice(None) if lane.rows is None else lane.rows
        if lane.kind == Kind.STRING:
            assert lane.strings is not None
            which, distinct = distinct_of(lane.strings)
            code[rows] = which[lane.whole] + len(values)
            values += [Value(Kind.STRING, text) for text in distinct]
            continue
        if lane.rest is None:
            _, first, which = np.unique(lane.whole, return_index=True, return_inverse=True)
        else:
            pairs = np.stack([lane.whole, lane.rest.view(np.int64)])
            _, first, which = np.unique(pairs, axis=1, return_index=True, return_inverse=True)
        code[rows] = which.reshape(-1) + len(values)
        values += [Value(lane.kind, lane.plain(place)) for place in first.tolist()]
    return code, values
