"""Adds tests of patterns to coded clauses (columns/coding.py)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.compiled import compiled

__all__ = ["ClauseTests", "SetPatterns", "add_pattern_tests", "count_patterns"]

NO_PIECES = -1


class ClauseTests(NamedTuple):
    """Clause c has the tests offsets[c]:offsets[c + 1]."""

    offsets: Any
    column: Any
    low: Any
    high: Any
    pieces: Any


class SetPatterns(NamedTuple):
    """The patterns of the tests that are sets: tests[i], ascending, is set which[i]; set k has the patterns offsets[k]:offsets[k + 1]."""

    tests: Any
    which: Any
    offsets: Any
    column: Any
    """Of each pattern."""
    low: Any
    high: Any
    """The codes that its test admits."""


@compiled
def count_patterns(patterns):
    """Returns how many tests `add_pattern_tests` adds."""
    which, offsets = patterns.which, patterns.offsets
    count = np.int64(0)
    for place in range(len(which)):
        count += offsets[which[place] + 1] - offsets[which[place]]
    return count


@compiled
def add_pattern_tests(given, patterns, out):
    """Copies all tests to `out`; behind those of each clause come the patterns of its sets."""
    offsets, columns, lows, highs, pieces = given
    tests, which, set_offsets, pattern_column, pattern_low, pattern_high = patterns
    out_offsets, out_column, out_low, out_high, out_pieces = out
    place = at = 0
    out_offsets[0] = 0
    for clause in range(len(offsets) - 1):
        for test in range(offsets[clause], offsets[clause + 1]):
            out_column[at], out_low[at], out_high[at], out_pieces[at] = (
                columns[test],
                lows[test],
                highs[test],
                pieces[test],
            )
            at += 1
        while place < len(tests) and tests[place] < offsets[clause + 1]:
            for pattern in range(set_offsets[which[place]], set_offsets[which[place] + 1]):
                out_column[at], out_low[at], out_high[at] = (
                    pattern_column[pattern],
                    pattern_low[pattern],
                    pattern_high[pattern],
                )
                out_pieces[at] = NO_PIECES
                at += 1
            place += 1
        out_offsets[clause + 1] = at
