"""Traces a single event through pivot lists (kernels/pivot/pivot_lists.py), pivot by pivot and step by step, for `explain`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.coding import CodedTests
from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.explain.plan import Partitions
from ray_pubsub.engines.explain.trace import OwnTests, Trace, Traced, column_names, ranges, values_of
from ray_pubsub.engines.pivot.lists import coded_rows, rows_of, shares_of
from ray_pubsub.kernels.pivot.pivot_choice import Shares
from ray_pubsub.kernels.pivot.pivot_lists import PROVEN, SLOTS, PivotLists

__all__ = ["holding_tests", "trace_pivots"]


def trace_pivots(
    codes: EventCodes, tests: CodedTests, lists: PivotLists, starts_of_rows: NDArray[np.uint32], vocabulary: Vocabulary
) -> Traced:
    """`tests` are in the order of rows."""
    space, count = tests.space, len(lists.entries) // 4
    values = values_of(codes, space.columns)
    signature = np.zeros(min(space.columns, SLOTS) + 1, np.int64)
    signature[0] = 0xFFFF
    buckets = lists.bucket[lists.base[codes.column] + codes.code].astype(np.int64)
    np.bitwise_or.at(signature, codes.column % SLOTS + 1, 1 << buckets)
    others = lists.entries.reshape(-1, 4)[:, :2].astype(np.int64)
    left = ((signature[others >> 16] & others & 0xFFFF) != 0).all(axis=1)
    proven = lists.entries[3::4] >= PROVEN
    rows = rows_of(lists, starts_of_rows)
    places = lists.directory.reshape(-1, 4).astype(np.int64)
    shares = shares_of(coded_rows(tests), space)
    # The entries of a column: by value and in runs, from its first code to its last.
    starts, ends = places[lists.base][:, [0, 2]], places[lists.base + space.top][:, [1, 3]]
    met = [column for column in codes.column.tolist() if (ends > starts)[column].any()]
    traces, verified, visited = [], 0, 0

    def finish(trace: Trace, held: NDArray[np.int64]) -> int:
        kept = held[left[held]]
        trace.add("", "other tests may hold", len(kept))
        return _finish(trace, rows[kept], proven[kept], tests, values)

    for column in met:
        place = places[lists.base[column] + values[column]]
        everything = ranges(starts[column], ends[column] - starts[column])
        trace = Trace(f"pivot {column_names(space, vocabulary, [column])}", len(np.unique(rows[everything])))
        held = ranges(place[[0, 2]], place[[1, 3]] - place[[0, 2]])
        ways = zip(("by value", "by run of ranges"), ends[column] > starts[column], strict=True)
        method = ", ".join(way for way, used in ways if used)
        trace.add(column_names(space, vocabulary, [column]), method, len(held), _expected(lists, shares, column))
        verified += finish(trace, held) if len(held) else 0
        traces.append(trace)
        visited += trace.clauses
    if lists.universal < count:
        trace = Trace("no pivot", count - lists.universal)
        verified += finish(trace, np.arange(lists.universal, count))
        traces.append(trace)
        visited += trace.clauses
    skipped = int((ends > starts).any(axis=1).sum()) - len(met)
    clauses = len(tests.offsets) - 1
    return Traced(Partitions("pivots", len(traces), skipped, visited, clauses - visited), traces, verified)


def _expected(lists: PivotLists, shares: Shares, column: int) -> float:
    """Returns how many entries a value of the column visits, if values are distributed as the choice of pivots assumes."""
    first, last = int(lists.base[column]) + 1, int(lists.base[column] + shares.top[column]) + 1
    met = lists.directory.reshape(-1, 4)[first:last].astype(np.int64)
    share = np.diff(shares.below[first - 1 : last])
    return float(((met[:, 1] - met[:, 0] + met[:, 3] - met[:, 2]) * share).sum())


def _finish(
    trace: Trace, rows: NDArray[Any], proven: NDArray[np.bool_], tests: CodedTests, values: NDArray[np.int32]
) -> int:
    """Adds the comparison of the clauses whose entries are left, and returns how many were compared."""
    compared = rows[~proven]
    if not len(compared):
        trace.numbers = rows
        return 0
    trace.numbers = np.concatenate([rows[proven], holding_tests(compared, tests, values)])
    trace.add("", "own tests compared", len(trace.numbers))
    return len(compared)


def holding_tests(compared: NDArray[Any], tests: CodedTests, values: NDArray[np.int32]) -> NDArray[Any]:
    """Returns which of these clauses hold."""
    holding = OwnTests(compared, tests.offsets, tests.column, tests.low, tests.high, values).left()
    return holding[_inside(holding, tests, values)] if tests.pieces is not None else holding


def _inside(positions: NDArray[Any], tests: CodedTests, values: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Returns which clauses hold on their tests of several intervals."""
    assert tests.pieces is not None
    begin, end = tests.offsets[positions].astype(np.int64), tests.offsets[positions + 1].astype(np.int64)
    test, owner = ranges(begin, end - begin), np.repeat(np.arange(len(positions)), end - begin)
    several = tests.pieces[test] >= 0
    test, owner = test[several], owner[several]
    piece = tests.pieces[test]
    lengths = tests.piece_offsets[piece + 1] - tests.piece_offsets[piece]
    interval = ranges(tests.piece_offsets[piece], lengths)
    code = np.repeat(values[tests.column[test]], lengths)
    admits = (code >= tests.piece_low[interval]) & (code <= tests.piece_high[interval])
    admitted = np.bincount(np.repeat(np.arange(len(test)), lengths), admits, len(test)) > 0
    inside = np.ones(len(positions), bool)
    inside[owner[~admitted]] = False
    return inside
