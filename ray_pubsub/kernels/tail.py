"""The newest clauses, not yet in a block: their test records are compared one by one with an event's values."""

from __future__ import annotations

from ray_pubsub.kernels.compiled import compiled, inlined

__all__ = ["ABSENT", "match_tail"]

OPAQUE, ALTERNATIVE = 1, 2
BEFORE, NONE = 0, 2
STRING = 1
ABSENT = 255


@inlined
def _holds(test, kind, whole, rest, verdict):
    if test.form & OPAQUE:
        return verdict[test.low_whole]
    if kind[test.attribute] != test.kind:
        return False
    value = whole[test.attribute]
    if test.kind == STRING:
        return value == test.low_whole
    part = rest[test.attribute]
    # A cut just before its operand lets the operand itself in from below; just after, it lets it in from above.
    if test.low_side != NONE:
        if value < test.low_whole or (value == test.low_whole and part < test.low_rest):
            return False
        if test.low_side != BEFORE and value == test.low_whole and part == test.low_rest:
            return False
    if test.high_side != NONE:
        if value > test.high_whole or (value == test.high_whole and part > test.high_rest):
            return False
        if test.high_side == BEFORE and value == test.high_whole and part == test.high_rest:
            return False
    return True


@compiled
def match_tail(
    count, offsets, tests, owners, cell_offsets, cell_attribute, cell_kind, cell_whole, cell_rest, verdicts,
    kind, whole, rest, out_offsets, out,
):  # fmt: skip
    """Owners of the clauses that hold, per event; of clauses of alternatives, if all of the owner's do. An event is a run of cells:
    attribute number, kind, whole, rest. `verdicts`: per event and test that is not a record in itself, whether it holds. Scratch, per
    attribute number: `kind` (ABSENT throughout), `whole`, `rest`. `out` has room for all clauses in all events."""
    found = 0
    for event in range(len(cell_offsets) - 1):
        for cell in range(cell_offsets[event], cell_offsets[event + 1]):
            number = cell_attribute[cell]
            kind[number], whole[number], rest[number] = cell_kind[cell], cell_whole[cell], cell_rest[cell]
        found = _match_one(count, offsets, tests, owners, kind, whole, rest, verdicts[event], found, out)
        out_offsets[event + 1] = found
        for cell in range(cell_offsets[event], cell_offsets[event + 1]):
            kind[cell_attribute[cell]] = ABSENT


@compiled
def _match_one(count, offsets, tests, owners, kind, whole, rest, verdict, found, out):
    clause = 0
    while clause < count:
        owner = owners[clause]
        first = offsets[clause]
        holds = True
        if first < offsets[clause + 1] and tests[first].form & ALTERNATIVE:
            while clause < count and owners[clause] == owner:
                some = False
                for test in range(offsets[clause], offsets[clause + 1]):
                    some = some or _holds(tests[test], kind, whole, rest, verdict)
                holds &= some
                clause += 1
        else:
            for test in range(first, offsets[clause + 1]):
                if not _holds(tests[test], kind, whole, rest, verdict):
                    holds = False
                    break
            clause += 1
        if holds:
            out[found] = owner
            found += 1
    return found
