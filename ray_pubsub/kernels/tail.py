"""The newest clauses, not yet in a block: their test records are compared with an event's values, clause by clause, as far as tests hold.

Whether a test holds is one branch, however it is bounded, and no array is handed on to a function within a loop, which would count its
references, atomically. Between two events blocks are read that are larger than the cache, so records are asked for ahead of their turn.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from ray_pubsub.kernels.compiled import compiled, inlined
from ray_pubsub.kernels.intrinsics import pointer_float64, pointer_int64, prefetch_address

__all__ = ["ABSENT", "match_tail", "match_tail_event"]

ABSENT = 255
OPAQUE, ALTERNATIVE = np.uint64(1), np.uint64(2)
BEFORE, NONE = np.uint64(0), np.uint64(2)
BYTE, HALF = np.uint64(255), np.uint64(0xFFFFFFFF)
ONE = np.uint64(1)
"""Everything unsigned: an index that may be negative counts from the end, which takes time to find out."""
FORM, KIND, LOW_SIDE, HIGH_SIDE = np.uint64(32), np.uint64(40), np.uint64(48), np.uint64(56)
"""Of a record (columns/clause_table.py, TEST) the head, after the attribute: which bit a field starts at."""
LOW_WHOLE, LOW_REST, HIGH_WHOLE, HIGH_REST, WORDS = (np.uint64(word) for word in (1, 2, 3, 4, 5))
"""The words of a record after its head, and how many it has."""
RECORD_BYTES, AHEAD = 40, np.uint64(16)


@inlined
def _holds(head, low_whole, low_rest, high_whole, high_rest, kind, value, part):
    """Whether a value is of the record's kind and lies between its two cuts. A cut just before its operand lets the operand itself in from
    below; just after, it lets it in from above. A string's test is an equality of its number with both bounds."""
    low_side, high_side = (head >> LOW_SIDE) & BYTE, (head >> HIGH_SIDE) & BYTE
    above = (value > low_whole) | (
        (value == low_whole) & ((part > low_rest) | ((part == low_rest) & (low_side == BEFORE)))
    )
    below = (value < high_whole) | (
        (value == high_whole) & ((part < high_rest) | ((part == high_rest) & (high_side != BEFORE)))
    )
    same = np.uint64(kind) == (head >> KIND) & BYTE
    return same & (above | (low_side == NONE)) & (below | (high_side == NONE))


@compiled
def match_tail_event(count, offsets_at, tests_at, owners_at, verdict, kind, whole, rest, out, found):
    """Appends to out[found:] the owners of the clauses that hold for one event; of clauses of alternatives, if all of the owner's do.
    Returns the new fill. The table's arrays are given by their addresses. `verdict`: per test that is not a record in itself, whether it
    holds. `kind`, `whole`, `rest`: the event's values by attribute number. `out` has room for one more than hold."""
    offsets = carray(pointer_int64(offsets_at), (count + 1,))
    owners = carray(pointer_int64(owners_at), (count,))
    words = carray(pointer_int64(tests_at), (offsets[count] * 5,))
    rests = carray(pointer_float64(tests_at), (offsets[count] * 5,))
    alternatives = False
    filled = np.uint64(found)
    last = np.uint64(count)
    end = np.uint64(offsets[0]) * WORDS
    for clause in range(np.uint64(0), last):
        ahead = tests_at + offsets[min(clause + AHEAD, last)] * RECORD_BYTES
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
            elif form:
                alternatives = True
                holds = False
            else:
                number = head & HALF
                holds = _holds(
                    head, words[test + LOW_WHOLE], rests[test + LOW_REST], words[test + HIGH_WHOLE],
                    rests[test + HIGH_REST], kind[number], whole[number], rest[number],
                )  # fmt: skip
            if not holds:
                break
            test += WORDS
        out[filled] = owners[clause]
        filled += np.uint64(holds)
    found = np.int64(filled)
    if alternatives:
        found = _match_alternatives(count, offsets, words, rests, owners, kind, whole, rest, verdict, found, out)
    return found


@compiled
def match_tail(
    count, offsets_at, tests_at, owners_at, cell_offsets, cell_attribute, cell_kind, cell_whole, cell_rest, verdicts,
    kind, whole, rest, out_offsets, out,
):  # fmt: skip
    """`match_tail_event` for every event of a batch. An event is a run of cells: attribute number (-1: nobody's), kind, whole, rest.
    `verdicts`: by event. Scratch: per attribute number `kind` (ABSENT throughout), `whole`, `rest`. `out` has room for all clauses in all
    events, and one more."""
    found = 0
    for event in range(len(cell_offsets) - 1):
        for cell in range(cell_offsets[event], cell_offsets[event + 1]):
            number = cell_attribute[cell]
            if number >= 0:
                kind[number], whole[number], rest[number] = cell_kind[cell], cell_whole[cell], cell_rest[cell]
        found = match_tail_event(count, offsets_at, tests_at, owners_at, verdicts[event], kind, whole, rest, out, found)
        out_offsets[event + 1] = found
        for cell in range(cell_offsets[event], cell_offsets[event + 1]):
            if cell_attribute[cell] >= 0:
                kind[cell_attribute[cell]] = ABSENT


@compiled
def _match_alternatives(count, offsets, words, rests, owners, kind, whole, rest, verdict, found, out):
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
            for record in range(offsets[clause], offsets[clause + 1]):
                test = np.uint64(record) * WORDS
                head = np.uint64(words[test])
                if (head >> FORM) & OPAQUE:
                    some |= verdict[np.uint64(words[test + LOW_WHOLE])]
                else:
                    number = head & HALF
                    some |= _holds(
                        head, words[test + LOW_WHOLE], rests[test + LOW_REST], words[test + HIGH_WHOLE],
                        rests[test + HIGH_REST], kind[number], whole[number], rest[number],
                    )  # fmt: skip
            holds &= some
            clause += 1
        if holds:
            out[found] = owner
            found += 1
    return found
