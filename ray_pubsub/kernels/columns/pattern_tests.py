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
    implied: Any
    """Of each set, whether its patterns alone decide: it admits all strings, and one of them must match, which only a string does."""


@compiled
def count_patterns(patterns):
    """Returns how many more tests there are after `add_pattern_tests`."""
    which, offsets, implied = patterns.which, patterns.offsets, patterns.implied
    count = np.int64(0)
    for place in range(len(which)):
        count += offsets[which[place] + 1] - offsets[which[place]] - implied[which[place]]
    return count


@compiled
def add_pattern_tests(given, patterns, out):
    """Copies the tests to `out`; behind those of each clause come the patterns of its sets, in the place of sets that they imply."""
    offsets, columns, lows, highs, pieces = given
    tests, which, set_offsets, pattern_column, pattern_low, pattern_high, implied = patterns
    out_offsets, out_column, out_low, out_high, out_pieces = out
    place = at = 0
    out_offsets[0] = 0
    for clause in range(len(offsets) - 1):
        ahead = place
        for test in range(offsets[clause], offsets[clause + 1]):
            if ahead < len(tests) and tests[ahead] == test:
                ahead += 1
                if implied[which[ahead - 1]]:
                    continue
            out_column[at], out_low[at], out_high[at] = columns[test], lows[test], highs[test]
            out_pieces[at] = pieces[test]
            at += 1
        for number in range(place, ahead):
            for pattern in range(set_offsets[which[number]], set_offsets[which[number] + 1]):
                out_column[at], out_low[at] = pattern_column[pattern], pattern_low[pattern]
                out_high[at], out_pieces[at] = pattern_high[pattern], NO_PIECES
                at += 1
        place = ahead
        out_offsets[clause + 1] = at
