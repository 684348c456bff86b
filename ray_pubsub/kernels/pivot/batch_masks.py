"""Matches a batch of events against the rows of clauses (kernels/pivot/clause_rows.py), one bit per event: for batches whose events visit
many entries of the pivot lists.

For each chunk of 1,024 events and each column there are lines of 1,024 bits: for each code that occurs, the events that have it, and the
events with a lower code. A set is the XOR of the lines of its codes, an interval the XOR of the lines of its two ends, and a clause the
AND of its tests. Nothing is left to compare: a bit that remains is a match. Every clause is read once per chunk, in order, while pivot
lists read scattered rows for each event. The structs are passed as plain tuples (kernels/pivot/pivot_lists.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.pivot.mask_intrinsics import WORDS, and_intervals, and_points

__all__ = [
    "CHUNK",
    "MOST_LINES",
    "ROOM",
    "WORDS",
    "ClauseRows",
    "EventLines",
    "clear_lines",
    "fill_lines",
    "match_rows",
    "ranged_columns",
]

CHUNK = 64 * WORDS
"""Events at a time. What a clause costs hardly depends on it: with 512 an event took 1.6 times as long."""
ROOM = CHUNK + 1
"""The most pairs of one clause and chunk, and one, since a pair is written before it is known to be one."""
MOST_LINES = 2**16
"""A line's number has 16 bits."""
ZERO, ONE, ALL_WORDS = np.uint64(0), np.uint64(1), np.uint64(2**WORDS - 1)


class ClauseRows(NamedTuple):
    words: np.ndarray
    """All rows, one after the other."""
    owners: np.ndarray
    """Whose clause each row is."""
    base: np.ndarray
    """Column → where its codes begin."""
    top: np.ndarray
    """Column → its largest code."""
    ranged: np.ndarray
    """Column → whether a row has intervals of it."""


class EventLines(NamedTuple):
    """Work space of one thread for the events of a chunk."""

    codes: np.ndarray
    """int32[column, event]; 0 is absence."""
    equal: np.ndarray
    """uint16, base + code → the line of the events with the code; line 0 is empty. All are 0 between chunks."""
    below: np.ndarray
    """uint16, base + column + code → the line of the events with a lower code, for 0 … top + 1."""
    lines: np.ndarray
    """uint64[line, WORDS]"""


@compiled
def ranged_columns(words, rows, ranged):
    """Marks the columns of which a row has intervals."""
    place = np.int64(0)
    for _ in range(rows):
        tests = np.int64(words[place])
        place += 1
        for _ in range(tests):
            size = np.int64(words[place + 1])
            ranged[words[place]] |= size & 1 == 0
            place += 2 + (size >> 1) * (2 - (size & 1))


@compiled
def fill_lines(first, count, cells, rows, lines):
    """Makes the lines of the events first … first + count - 1. Returns how many lines there are, or 0 if there is no room for them."""
    codes, equal, below, table = lines
    offsets, column, code = cells
    rows = ClauseRows(*rows)
    columns = len(rows.top)
    codes[:] = 0
    for event in range(count):
        for cell in range(offsets[first + event], offsets[first + event + 1]):
            codes[column[cell], event] = code[cell]
    table[0] = ZERO
    used = 1
    for place in range(columns):
        base = rows.base[place]
        for event in range(count):
            line = np.int64(equal[base + codes[place, event]])
            if line == 0:
                if used == len(table):
                    return 0
                line = used
                used += 1
                equal[base + codes[place, event]] = line
                table[line] = ZERO
            table[line, event >> 6] |= ONE << np.uint64(event & 63)
        if not rows.ranged[place]:
            continue
        line = 0
        target = base + place
        below[target] = 0
        for each in range(rows.top[place] + 1):
            if equal[base + each] != 0:
                if used == len(table):
                    return 0
                for word in range(WORDS):
                    table[used, word] = table[line, word] | table[equal[base + each], word]
                line = used
                used += 1
            below[target + each + 1] = line
    return used


@compiled
def clear_lines(count, rows, lines):
    rows, lines = ClauseRows(*rows), EventLines(*lines)
    for place in range(len(rows.top)):
        for event in range(count):
            lines.equal[rows.base[place] + lines.codes[place, event]] = 0


@compiled
def match_rows(position, count, rows, lines, pairs):
    """Pairs of one of the `count` events and an owner, as event << 32 | owner, to `pairs`, from `position` (a clause and the place of its
    row) on, which is moved to where there may be no more room, or behind the last clause. Returns the number of pairs; there must be room
    for ROOM."""
    rows, lines = ClauseRows(*rows), EventLines(*lines)
    words, owners, base, equal, below = rows.words, rows.owners, rows.base, lines.equal, lines.below
    mask, every = np.empty(WORDS, np.uint64), np.zeros(WORDS, np.uint64)
    for event in range(count):
        every[event >> 6] |= ONE << np.uint64(event & 63)
    mask_at, table_at = mask.ctypes.data, lines.lines.ctypes.data
    made, place = 0, position[1]
    for clause in range(position[0], len(owners)):
        if made + ROOM > len(pairs):
            position[0], position[1] = clause, place
            return made
        for word in range(WORDS):
            mask[word] = every[word]
        tests = np.int64(words[place])
        place += 1
        filled = ALL_WORDS
        for _ in range(tests):
            column, size = np.int64(words[place]), np.int64(words[place + 1])
            place += 2
            if filled != ZERO:
                if size & 1:
                    filled = and_points(mask_at, table_at, equal, base[column], words, place, size >> 1)
                else:
                    filled = and_intervals(mask_at, table_at, below, base[column] + column, words, place, size >> 1)
            place += (size >> 1) * (2 - (size & 1))
        while filled != ZERO:
            word = np.int64(trailing_zeros(filled))
            filled &= filled - ONE
            left = mask[word]
            while left != ZERO:
                event = word * 64 + np.int64(trailing_zeros(left))
                left &= left - ONE
                pairs[made] = (np.uint64(event) << np.uint64(32)) | np.uint64(np.uint32(owners[clause]))
                made += 1
    position[0], position[1] = len(owners), place
    return made
