"""The newest clauses, not yet in a block: their test records are compared with an event's values.

An event meets the first test of every clause, then the second of those that are left, and so on. Whether a test holds is no branch, and no
array is handed on to a function within a loop, which would count its references, atomically.
"""

from __future__ import annotations

from ray_pubsub.kernels.compiled import compiled, inlined

__all__ = ["ABSENT", "match_tail"]

OPAQUE, ALTERNATIVE = 1, 2
BEFORE, NONE = 0, 2
ABSENT = 255


@inlined
def _admits(low_side, low_whole, low_rest, high_side, high_whole, high_rest, value, part):
    """Whether a value lies between two cuts. A cut just before its operand lets the operand itself in from below; just after, it lets it
    in from above. A string's test is an equality of its number with both bounds."""
    above = (value > low_whole) | (
        (value == low_whole) & ((part > low_rest) | ((part == low_rest) & (low_side == BEFORE)))
    )
    below = (value < high_whole) | (
        (value == high_whole) & ((part < high_rest) | ((part == high_rest) & (high_side != BEFORE)))
    )
    return (above | (low_side == NONE)) & (below | (high_side == NONE))


@compiled
def match_tail(
    count, offsets, tests, owners, cell_offsets, cell_attribute, cell_kind, cell_whole, cell_rest, verdicts,
    kind, whole, rest, left, out_offsets, out,
):  # fmt: skip
    """Owners of the clauses that hold, per event; of clauses of alternatives, if all of the owner's do. An event is a run of cells:
    attribute number (-1: nobody's), kind, whole, rest. `verdicts`: per event and test that is not a record in itself, whether it holds.
    Scratch: per attribute number `kind` (ABSENT throughout), `whole`, `rest`; per clause `left`. `out` has room for all clauses in all
    events."""
    found = 0
    for event in range(len(cell_offsets) - 1):
        for cell in range(cell_offsets[event], cell_offsets[event + 1]):
            number = cell_attribute[cell]
            if number >= 0:
                kind[number], whole[number], rest[number] = cell_kind[cell], cell_whole[cell], cell_rest[cell]
        alternatives = False
        living = 0
        for clause in range(count):
            first = offsets[clause]
            other = first < offsets[clause + 1] and (tests[first].form & ALTERNATIVE) != 0
            alternatives |= other
            left[living] = clause
            living += not other
        step = 0
        while living:
            going = 0
            for place in range(living):
                clause = left[place]
                test = offsets[clause] + step
                if test == offsets[clause + 1]:
                    out[found] = owners[clause]
                    found += 1
                    continue
                record = tests[test]
                if record.form & OPAQUE:
                    holds = verdicts[event, record.low_whole]
                else:
                    number = record.attribute
                    holds = (kind[number] == record.kind) & _admits(
                        record.low_side, record.low_whole, record.low_rest,
                        record.high_side, record.high_whole, record.high_rest, whole[number], rest[number],
                    )  # fmt: skip
                left[going] = clause
                going += holds
            living = going
            step += 1
        if alternatives:
            found = _match_alternatives(count, offsets, tests, owners, kind, whole, rest, verdicts[event], found, out)
        out_offsets[event + 1] = found
        for cell in range(cell_offsets[event], cell_offsets[event + 1]):
            if cell_attribute[cell] >= 0:
                kind[cell_attribute[cell]] = ABSENT


@compiled
def _match_alternatives(count, offsets, tests, owners, kind, whole, rest, verdict, found, out):
    clause = 0
    while clause < count:
        owner = owners[clause]
        first = offsets[clause]
        if first == offsets[clause + 1] or not tests[first].form & ALTERNATIVE:
            clause += 1
            continue
        holds = True
        while clause < count and owners[clause] == owner:
            some = False
            for test in range(offsets[clause], offsets[clause + 1]):
                record = tests[test]
                if record.form & OPAQUE:
                    some |= verdict[record.low_whole]
                else:
                    number = record.attribute
                    some |= (kind[number] == record.kind) & _admits(
                        record.low_side, record.low_whole, record.low_rest,
                        record.high_side, record.high_whole, record.high_rest, whole[number], rest[number],
                    )  # fmt: skip
            holds &= some
            clause += 1
        if holds:
            out[found] = owner
            found += 1
    return found
