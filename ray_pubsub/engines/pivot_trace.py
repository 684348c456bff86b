"""A single event through pivot lists (kernels/pivot_lists.py), pivot by pivot and step by step, for `explain`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.coding import CodedTests
from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.plan import Partitions
from ray_pubsub.engines.trace import OwnTests, Trace, Traced, column_names, ranges, values_of

__all__ = ["trace_pivots"]


def trace_pivots(
    codes: EventCodes, tests: CodedTests, base: NDArray[np.int64], directory: NDArray[np.uint32], universal: int,
    second: NDArray[np.int32], vocabulary: Vocabulary,
) -> Traced:  # fmt: skip
    """`tests` by position; `second`: per position the other column it needs, or the number behind the columns if its run alone proves it,
    or the next if it needs none."""
    space, count = tests.space, len(second)
    values = values_of(codes, space.columns)
    present = np.append(values > 0, [True, True])
    entries = directory.reshape(-1, 4).astype(np.int64)
    # The runs of a column's equality pivots and of its ranges, from its first code to its last.
    starts, ends = entries[base][:, [0, 2]], entries[base + space.top][:, [1, 3]]
    sizes = (ends - starts).sum(axis=1)
    met = [column for column in codes.column.tolist() if sizes[column]]
    traces, verified = [], 0
    for column in met:
        entry = entries[base[column] + values[column]]
        trace = Trace(f"pivot {column_names(space, vocabulary, [column])}", int(sizes[column]))
        by_value, by_range = entry[1] - entry[0], entry[3] - entry[2]
        everything = ranges(starts[column], ends[column] - starts[column])
        held = ranges(entry[[0, 2]], np.array([by_value, by_range]))
        ways = zip(("equality looked up", "run of ranges"), ends[column] > starts[column], strict=True)
        method = ", ".join(way for way, used in ways if used)
        estimated = _expected(everything, tests, column)
        trace.add(column_names(space, vocabulary, [column]), method, len(held), estimated)
        verified += _finish(trace, held, tests, second, present, values)
        traces.append(trace)
    if universal < count:
        trace = Trace("no pivot", count - universal)
        verified += _finish(trace, np.arange(universal, count), tests, second, present, values)
        traces.append(trace)
    visited = sum(trace.clauses for trace in traces)
    skipped = int((sizes > 0).sum()) - len(met)
    return Traced(Partitions("pivots", len(traces), skipped, visited, count - visited), traces, verified)


def _expected(positions: NDArray[np.int64], tests: CodedTests, column: int) -> float:
    """What the choice of the pivot expects of it: every clause holds for the part of the column's codes that its pivot admits."""
    begin, end = tests.offsets[positions].astype(np.int64), tests.offsets[positions + 1].astype(np.int64)
    test = ranges(begin, end - begin)
    low, high = tests.low[test].astype(np.int64), tests.high[test].astype(np.int64)
    owner = np.repeat(np.arange(len(positions)), end - begin)
    chosen = (tests.column[test] == column) & (low > 0)
    part = np.ones(len(positions))
    np.minimum.at(part, owner[chosen], (high - low + 1)[chosen] / float(tests.space.top[column]))
    return float(np.maximum(part, 0).sum())


def _finish(
    trace: Trace, held: NDArray[np.int64], tests: CodedTests, second: NDArray[np.int32], present: NDArray[np.bool_],
    values: NDArray[np.int32],
) -> int:  # fmt: skip
    """The steps after the runs; returns how many clauses were compared."""
    if not len(held):
        return 0
    held = held[present[second[held]]]
    trace.add("", "another attribute it needs is there", len(held))
    proven = second[held] == tests.space.columns
    compared = held[~proven]
    if not len(compared):
        trace.numbers = held
        return 0
    own = OwnTests(compared, tests.offsets, tests.column, tests.low, tests.high, values)
    holding = own.left()
    if tests.pieces is not None:
        holding = holding[_inside(holding, tests, values)]
    trace.numbers = np.concatenate([held[proven], holding])
    trace.add("", "own tests compared", len(trace.numbers))
    return len(compared)


def _inside(positions: NDArray[Any], tests: CodedTests, values: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which clauses hold on their tests of several intervals."""
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
