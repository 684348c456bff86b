"""The structs of coding: a code space as kernels read it, and tests as records and as codes.

A code space is passed as a row of eight integers, in the order of Tracks: the addresses of its arrays, then how many tracks and operands
there are. An array costs 0.06 µs to pass from Python, a tuple of six more than a microsecond: too much for a single event. The caller keeps
the space alive. All other structs are NamedTuples of arrays, for kernels that are called once for many tests.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import carray

from ray_pubsub.kernels.compiled import inlined
from ray_pubsub.kernels.intrinsics import pointer_float64, pointer_int32, pointer_int64

__all__ = ["TRACK_DTYPES", "Bounds", "ClauseRows", "CodeIntervals", "Pieces", "TestFields", "Tracks", "tracks_at"]


class Tracks(NamedTuple):
    """See kernels/columns/coding.py. The first four have a number per track."""

    base: Any
    """The track's first code."""
    count: Any
    """How many operands it has."""
    least: Any
    """The least operand of a direct track, else RANKED:"""
    start: Any
    """then its operands are from here on in the two last arrays."""
    operand_whole: Any
    operand_rest: Any


TRACK_DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(np.int64) for name in Tracks._fields} | {
    "base": np.dtype(np.int32),
    "operand_rest": np.dtype(np.float64),
}
"""As `tracks_at` reads the arrays."""


class Bounds(NamedTuple):
    """The low or the high bounds of test records (columns/test_records.py)."""

    side: Any
    whole: Any
    rest: Any


class TestFields(NamedTuple):
    """Test records field by field."""

    attribute: Any
    form: Any
    kind: Any
    low: Bounds
    high: Bounds


class ClauseRows(NamedTuple):
    """A clause table (columns/clause_table.py) that has room for more clauses."""

    owners: Any
    offsets: Any
    tests: Any


class CodeIntervals(NamedTuple):
    """Test i, or record i, admits the codes low[i] … high[i] of a column."""

    column: Any
    low: Any
    high: Any


class Pieces(NamedTuple):
    """Tests of several intervals: those of test i are low[k] … high[k] for k in offsets[number[i]]:offsets[number[i] + 1]. A test of
    one interval has the number -1."""

    number: Any
    offsets: Any
    low: Any
    high: Any


@inlined
def tracks_at(row, place):
    """The tracks whose eight integers begin at a place of a row."""
    tracks, operands = row[place + 6], row[place + 7]
    return Tracks(
        carray(pointer_int32(row[place]), (tracks,)),
        carray(pointer_int64(row[place + 1]), (tracks,)),
        carray(pointer_int64(row[place + 2]), (tracks,)),
        carray(pointer_int64(row[place + 3]), (tracks,)),
        carray(pointer_int64(row[place + 4]), (operands,)),
        carray(pointer_float64(row[place + 5]), (operands,)),
    )
