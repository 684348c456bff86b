"""The newest clauses, not yet in a block: their test records are compared one by one with an event's values."""

from __future__ import annotations

from ray_pubsub.kernels.compiled import compiled, inlined

__all__ = ["match_tail"]

INTERVAL = 0
BEFORE, NONE = 0, 2
STRING = 1


@inlined
def _holds(test, kind, whole, rest, verdict):
    if test.form != INTERVAL:
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
def match_tail(count, offsets, tests, owners, kind, whole, rest, verdict, out):
    """Owners of the clauses that hold. Per attribute number: the value's kind (255: absent), whole and rest. `verdict`: per test that is
    not a record in itself, whether it holds."""
    found = 0
    for clause in range(count):
        holds = True
        for test in range(offsets[clause], offsets[clause + 1]):
            if not _holds(tests[test], kind, whole, rest, verdict):
                holds = False
                break
        if holds:
            out[found] = owners[clause]
            found += 1
    return found
