"""Matches the newest clauses, which are not yet in a block: compares their test records with an event's values, clause by clause, up to
the first test that fails.

A test takes one branch, however it is bounded. No array is passed to a function within a loop, because that would count references
atomically. Between two events, blocks larger than the cache are read, so records are prefetched.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import carray

from ray_pubsub.kernels.compiled import compiled, inlined
from ray_pubsub.kernels.intrinsics import pointer_float64, pointer_int64, prefetch_address

__all__ = ["ABSENT", "Cells", "Tail", "Values", "clear_values", "match_tail", "match_tail_event", "put_values"]

ABSENT = 255
OPAQUE, ALTERNATIVE, CONTINUED, EXCLUDED = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(8)
BEFORE, NONE = np.uint64(0), np.uint64(2)
BYTE, HALF = np.uint64(255), np.uint64(0xFFFFFFFF)
ONE = np.uint64(1)
"""Everything unsigned: an index that may be negative counts from the end, which takes time to find out."""
FORM, KIND, LOW_SIDE, HIGH_SIDE = np.uint64(32), np.uint64(40), np.uint64(48), np.uint64(56)
"""Of a record (columns/clause_table.py, TEST) the head, after the attribute: which bit a field starts at."""
LOW_WHOLE, LOW_REST, HIGH_WHOLE, HIGH_REST, WORDS = (np.uint64(word) for word in (1, 2, 3, 4, 5))
"""The words of a record after its head, and how many it has."""
RECORD_BYTES, AHEAD = 40, np.uint64(16)


class Tail(NamedTuple):
    """How many clauses there are, and the addresses of a clause table's offsets, tests and owners. A call from Python passes it as a plain
    tuple: numba recognises that in C, and a NamedTuple in Python, which takes a microsecond."""

    clauses: Any
    offsets: Any
    tests: Any
    owners: Any


class Cells(NamedTuple):
    """Values of events, one after the other: attribute number (-1: no clause tests it), kind, whole, rest."""

    attribute: Any
    kind: Any
    whole: Any
    rest: Any


class Values(NamedTuple):
    """Scratch: one event's values by attribute number. `kind` is ABSENT between calls."""

    kind: Any
    whole: Any
    rest: Any


@inlined
def put_values(cells, first, last, values):
    for cell in range(first, last):
        number = cells.attribute[cell]
        if number >= 0:
            values.kind[number], values.whole[number] = cells.kind[cell], cells.whole[cell]
            values.rest[number] = cells.rest[cell]


@inlined
def clear_values(cells, first, last, values):
    for cell in range(first, last):
        if cells.attribute[cell] >= 0:
            values.kind[cells.attribute[cell]] = ABSENT


@inlined
def _holds(head, low_whole, low_rest, high_whole, high_rest, kind, value, part):
    """Returns whether a value is of the record's kind and lies between its two cuts. A cut just before its operand lets the operand
    itself in from below; just after, it lets it in from above. A string's test is an equality of its number with both bounds."""
    low_side, high_side = (head >> LOW_SIDE) & BYTE, (head >> HIGH_SIDE) & BYTE
    above = (value > low_whole) | (
        (value == low_whole) & ((part > low_rest) | ((part == low_rest) & (low_side == BEFORE)))
    )
    below = (value < high_whole) | (
        (value == high_whole) & ((part < high_rest) | ((part == high_rest) & (high_side != BEFORE)))
    )
    same = np.uint64(kind) == (head >> KIND) & BYTE
    return same & (above | (low_side == NONE)) & (below | (high_side == NONE))


@inlined
def _run_holds(head, excluded, words, rests, test, end, values):
    """Returns whether the test that begins at record `test` holds, and where the next one begins: one record, or as many as are
    continued."""
    number = head & HALF
    value_kind, value, part = values.kind[number], values.whole[number], values.rest[number]
    holds = _holds(
        head, words[test + LOW_WHOLE], rests[test + LOW_REST], words[test + HIGH_WHOLE], rests[test + HIGH_REST],
        value_kind, value, part,
    )  # fmt: skip
    test += WORDS
    while test < end:
        other = np.uint64(words[test])
        if not (other >> FORM) & CONTINUED:
            break
        holds |= _holds(
            other, words[test + LOW_WHOLE], rests[test + LOW_REST], words[test + HIGH_WHOLE], rests[test + HIGH_REST],
            value_kind, value, part,
        )  # fmt: skip
        test += WORDS
    if excluded:
        holds = (np.uint64(value_kind) == (head >> KIND) & BYTE) & (not holds)
    return holds, test


@compiled
def match_tail_event(tail, verdict, values, out, found):
    """Appends to out[found:] the owners of the clauses that hold for one event; of clauses of alternatives, if all of the owner's do.
    Returns the new fill. `verdict`: per test that is not a record in itself, whether it holds. `out` has room for one more than hold."""
    count = tail.clauses
    offsets = carray(pointer_int64(tail.offsets), (count + 1,))
    owners = carray(pointer_int64(tail.owners), (count,))
    words = carray(pointer_int64(tail.tests), (offsets[count] * 5,))
    rests = carray(pointer_float64(tail.tests), (offsets[count] * 5,))
    alternatives = False
    filled = np.uint64(found)
    last = np.uint64(count)
    end = np.uint64(offsets[0]) * WORDS
    for clause in range(np.uint64(0), last):
        ahead = tail.tests + offsets[min(clause + AHEAD, last)] * RECORD_BYTES
        prefetch_address(ahead)
        prefetch_address(ahead + 64)
        test = end
        end = np.uint64(offsets[clause + ONE]) * WORDS
        holds = True
        while test < end:
            head = np.uint64(words[test])
            form = (head >> FORM) & BYTE
            if form == OPAQUE:
                holds = verdict[np.uint64(words[test + LOW_WHOLE])]
                test += WORDS
            elif form & ALTERNATIVE:
                alternatives = True
                holds = False
            else:
                holds, test = _run_holds(head, form & EXCLUDED, words, rests, test, end, values)
            if not holds:
                break
        out[filled] = owners[clause]
        filled += np.uint64(holds)
    found = np.int64(filled)
    if alternatives:
        found = _match_alternatives(tail, verdict, values, out, found)
    return found


@compiled
def match_tail(tail, offsets, cells, verdicts, values, out_offsets, out):
    """`match_tail_event` for every event of a batch: event i has the cells offsets[i] … offsets[i + 1] - 1 and verdicts[i]. `out` has room
    for all clauses in all events, and one more. `tail`, `cells`, `values`: plain tuples of what Tail, Cells and Values name."""
    one, given, by_number = Tail(*tail), Cells(*cells), Values(*values)
    found = 0
    for event in range(len(offsets) - 1):
        put_values(given, offsets[event], offsets[event + 1], by_number)
        found = match_tail_event(one, verdicts[event], by_number, out, found)
        clear_values(given, offsets[event], offsets[event + 1], by_number)
        out_offsets[event + 1] = found


@compiled
def _match_alternatives(tail, verdict, values, out, found):
    count = tail.clauses
    offsets = carray(pointer_int64(tail.offsets), (count + 1,))
    owners = carray(pointer_int64(tail.owners), (count,))
    words = carray(pointer_int64(tail.tests), (offsets[count] * 5,))
    rests = carray(pointer_float64(tail.tests), (offsets[count] * 5,))
    clause = 0
    while clause < count:
        owner = owners[clause]
        first = np.uint64(offsets[clause])
        if offsets[clause] == offsets[clause + 1] or not (np.uint64(words[first * WORDS]) >> FORM) & ALTERNATIVE:
            clause += 1
            continue
        holds = True
        while clause < count and owners[clause] == owner:
            some = False
            test, end = np.uint64(offsets[clause]) * WORDS, np.uint64(offsets[clause + 1]) * WORDS
            while test < end:
                head = np.uint64(words[test])
                if (head >> FORM) & OPAQUE:
                    some |= verdict[np.uint64(words[test + LOW_WHOLE])]
                    test += WORDS
                else:
                    form = (head >> FORM) & BYTE
                    one, test = _run_holds(head, form & EXCLUDED, words, rests, test, end, values)
                    some |= one
            holds &= some
            clause += 1
        if holds:
            out[found] = owner
            found += 1
    return found
