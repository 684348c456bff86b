"""Traces a single event through the bucket bitmaps of a dense segment (kernels/dense/match.py), step by step, for `explain`.

The bitmaps were built from the clauses' 8-bit codes and contain nothing more, so the trace reads the codes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.engines.explain.plan import Partitions
from ray_pubsub.engines.explain.trace import Trace, Traced
from ray_pubsub.kernels.dense.clustering import FREE_LOW, LINE, WORD
from ray_pubsub.kernels.dense.match import columns_worth

__all__ = ["DenseRows", "trace_dense"]

Bounds = tuple[NDArray[np.int32], NDArray[np.int32]]


class DenseRows(NamedTuple):
    """A segment's clauses in clustered order: 8-bit codes of lows and of 255 - highs, exact lows and highs, numbers."""

    codes: NDArray[np.uint8]
    bounds_at: Callable[[NDArray[np.int64]], Bounds]
    """By [clause, column], of the clauses at these places."""
    numbers: NDArray[Any]


def trace_dense(
    values: NDArray[np.int32], clauses: DenseRows, edges: NDArray[np.int32], bucket: NDArray[np.int64],
    group: NDArray[np.int64], rate: NDArray[np.float64], named: Callable[[NDArray[Any]], str],
) -> Traced:  # fmt: skip
    """`values`: the event's code by column, FREE_LOW where it has none. `bucket` and `group`: those of each 8-bit code. `rate`: for each
    column and group the share of the clauses in live words that passes; columns are visited in this order."""
    columns = len(edges)
    code = np.array(
        [
            0 if value == FREE_LOW else 1 + np.searchsorted(of, value, side="right")
            for value, of in zip(values, edges, strict=True)
        ]
    )
    share = rate[np.arange(columns), group[code]]
    turn = np.argsort(share, kind="stable")
    live = _live_words(clauses.codes, columns, code, group)
    alive = np.repeat(live, WORD)[: len(clauses.numbers)]
    words, visited = int(live.sum()), int(alive.sum())
    trace = Trace("live words", visited)
    expected = words * float(WORD)
    worth = columns_worth(words, _lines(alive), share[turn]) if words else 0
    for step, column in enumerate(turn[:worth]):
        lowest, highest = _alike(bucket, code[column])
        alive &= (clauses.codes[:, column] <= highest) & (clauses.codes[:, columns + column] <= 255 - lowest)
        expected *= share[column]
        trace.add(named(turn[step : step + 1]), "bucket bitmap", int(alive.sum()), expected)
    places = np.flatnonzero(alive)
    found = places[_holds(*clauses.bounds_at(places), values)]
    trace.numbers = clauses.numbers[found]
    trace.add("", "codes and exact bounds compared", len(found), expected * float(np.prod(share[turn[worth:]])))
    partitions = Partitions(
        f"words of {WORD} clauses", words, len(live) - words, visited, len(clauses.numbers) - visited
    )
    return Traced(partitions, [trace], len(places))


def _alike(of_code: NDArray[np.int64], code: int) -> tuple[int, int]:
    """Returns the least and the largest code in the same bucket or group."""
    first, behind = (int(np.searchsorted(of_code, of_code[code], side)) for side in ("left", "right"))
    return first, behind - 1


def _live_words(
    codes: NDArray[np.uint8], columns: int, code: NDArray[Any], group: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Returns the words whose hull contains the event, in every column."""
    hull = np.minimum.reduceat(codes[:, : 2 * columns], np.arange(0, len(codes), WORD), axis=0)
    live = np.ones(len(hull), bool)
    for column in range(columns):
        lowest, highest = _alike(group, code[column])
        live &= (hull[:, column] <= highest) & (hull[:, columns + column] <= 255 - lowest)
    return live


def _lines(alive: NDArray[np.bool_]) -> int:
    """Returns the number of lines with a bit left."""
    return int(np.logical_or.reduceat(alive, np.arange(0, len(alive), LINE)).sum())


def _holds(low: NDArray[np.int32], high: NDArray[np.int32], values: NDArray[np.int32]) -> NDArray[np.bool_]:
    holds: NDArray[np.bool_] = np.logical_and.reduce((low <= values) & (values <= high), axis=1)
    return holds
