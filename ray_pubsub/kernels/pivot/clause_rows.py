"""Clauses as rows of small numbers, one after the other: what a candidate is compared with lies in one or two cache lines. (As arrays of
columns, lows, highs and pieces it was eight misses, and five times as slow on sets.)

    row     number of tests, then the tests: the pivot's first (kernels/pivot/pivot_choice.py), it excludes most events
    test    column, size, then its codes
    size    2 k: k intervals follow, each low and high; 2 k + 1: k points follow. Both ascend and do not touch.

Numbers are of 16 bits if all fit, else of 32. Behind the last row are SHORT zeros, so that SHORT numbers can be read from any place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_pubsub.kernels.compiled import compiled, inlined

__all__ = [
    "SHORT",
    "CodedRows",
    "check_rows",
    "count_rows",
    "first_seen",
    "read_rows",
    "row_sizes",
    "words_behind",
    "write_rows",
]


SHORT = 16
"""Numbers that are compared at once."""


class CodedRows(NamedTuple):
    """The tests of clauses in CSR (columns/coding.py, CodedTests): test i admits the codes low[i] … high[i] of its column; if
    pieces[i] = k is not negative, only those of the pieces piece_offsets[k]:piece_offsets[k + 1], which ascend. `pieces` is empty if no
    test has any."""

    offsets: np.ndarray
    column: np.ndarray
    low: np.ndarray
    high: np.ndarray
    pieces: np.ndarray
    piece_offsets: np.ndarray
    piece_low: np.ndarray
    piece_high: np.ndarray


@inlined
def words_behind(size):
    """Returns how many numbers follow a size."""
    return (size >> 1) * (2 - (size & 1))


@compiled
def first_seen(clauses, count):
    """The clauses 0 … count - 1 in the order in which they first occur; all of them do."""
    order = np.empty(count, np.int64)
    seen = np.zeros(count, np.bool_)
    filled = 0
    for place in range(len(clauses)):
        if not seen[clauses[place]]:
            seen[clauses[place]] = True
            order[filled] = clauses[place]
            filled += 1
    return order


@compiled
def row_sizes(tests, order, sizes, starts):
    """Fills `sizes` with the size of every test, and `starts` with where each clause's row starts, in this order, and the end."""
    offsets, low, high, pieces = tests.offsets, tests.low, tests.high, tests.pieces
    piece_offsets, piece_low, piece_high = tests.piece_offsets, tests.piece_low, tests.piece_high
    for test in range(len(low)):
        sizes[test] = 3 if low[test] == high[test] else 2
        if len(pieces) > 0 and pieces[test] >= 0:
            first, last = piece_offsets[pieces[test]], piece_offsets[pieces[test] + 1]
            points = True
            for piece in range(first, last):
                points &= piece_low[piece] == piece_high[piece]
            sizes[test] = 2 * (last - first) + points
    target = np.int64(0)
    for row in range(len(order)):
        starts[row] = target
        target += 1
        for test in range(offsets[order[row]], offsets[order[row] + 1]):
            target += 2 + words_behind(np.int64(sizes[test]))
    starts[len(order)] = target


@compiled
def write_rows(tests, order, pivots, sizes, words):
    """`pivots`: of each clause the test that comes first, or -1."""
    offsets, column, low, high, pieces = tests.offsets, tests.column, tests.low, tests.high, tests.pieces
    piece_offsets, piece_low, piece_high = tests.piece_offsets, tests.piece_low, tests.piece_high
    target = 0
    for row in range(len(order)):
        clause = order[row]
        words[target] = offsets[clause + 1] - offsets[clause]
        target += 1
        first = max(offsets[clause], pivots[clause])
        for step in range(offsets[clause], offsets[clause + 1]):
            # The pivot, then those before it, then those behind it.
            test = first if step == offsets[clause] else step - (step <= first)
            size = np.int64(sizes[test])
            words[target], words[target + 1] = column[test], size
            target += 2
            if len(pieces) == 0 or pieces[test] < 0:
                words[target] = low[test]
                if size == 2:
                    words[target + 1] = high[test]
                target += 1 + (size == 2)
                continue
            for piece in range(piece_offsets[pieces[test]], piece_offsets[pieces[test] + 1]):
                words[target] = piece_low[piece]
                if size & 1 == 0:
                    words[target + 1] = piece_high[piece]
                target += 2 - (size & 1)
    words[target:] = 0


@compiled
def count_rows(words, starts):
    """Of the rows at these places: how many tests they have, how many of those have several pieces, and how many pieces those have."""
    tests, several, pieces = np.int64(0), np.int64(0), np.int64(0)
    for row in range(len(starts)):
        place = np.int64(starts[row])
        count = np.int64(words[place])
        place += 1
        tests += count
        for _ in range(count):
            size = np.int64(words[place + 1])
            if size >> 1 != 1:
                several += 1
                pieces += size >> 1
            place += 2 + words_behind(size)
    return tests, several, pieces


@compiled
def read_rows(words, starts, tests):
    """Fills `tests` with the rows at these places, tests in the order of their columns again."""
    test, piece, several = 0, 0, 0
    tests.offsets[0] = 0
    tests.piece_offsets[0] = 0
    for row in range(len(starts)):
        pivot = np.int64(starts[row]) + 1
        count = np.int64(words[pivot - 1])
        following = pivot + 2 + words_behind(np.int64(words[pivot + 1]))
        placed = False
        for step in range(count):
            place = following
            if not placed and (step == count - 1 or words[pivot] < words[following]):
                place, placed = pivot, True
            tests.column[test] = words[place]
            size = np.int64(words[place + 1])
            stride = 2 - (size & 1)
            place += 2
            tests.low[test], tests.high[test] = words[place], words[place + words_behind(size) - 1]
            if len(tests.pieces):
                tests.pieces[test] = -1
            if size >> 1 != 1:
                tests.pieces[test] = several
                for number in range(size >> 1):
                    tests.piece_low[piece] = words[place + number * stride]
                    tests.piece_high[piece] = words[place + number * stride + stride - 1]
                    piece += 1
                several += 1
                tests.piece_offsets[several] = piece
            if place - 2 == following:
                following = place + words_behind(size)
            test += 1
        tests.offsets[row + 1] = test


@compiled
def check_rows(words, top, starts):
    """Returns whether these are rows of columns there are, with codes of those columns; fills `starts` with where each begins."""
    place = np.int64(0)
    for row in range(len(starts)):
        starts[row] = place
        if place >= len(words) or words[place] < 0:
            return False
        count = np.int64(words[place])
        place += 1
        for _ in range(count):
            if place + 2 > len(words) or words[place] < 0 or words[place] >= len(top) or words[place + 1] < 2:
                return False
            column, size = words[place], np.int64(words[place + 1])
            place += 2
            if place + words_behind(size) > len(words):
                return False
            before = np.int64(-1)
            for number in range(words_behind(size)):
                code = np.int64(words[place + number])
                even = size & 1 == 0 and number & 1 == 1  # a high may equal its low
                if code < before + (0 if even else 1) or code > top[column]:
                    return False
                before = code
            place += words_behind(size)
    return place == len(words) - SHORT
