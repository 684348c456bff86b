"""From clauses of nodes to test records (columns/clause_table.py)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.compiled import compiled, piece
from ray_pubsub.kernels.texts.layout import BETWEEN, UNKNOWN
from ray_pubsub.kernels.texts.normal_form import CONJUNCTIVE, DISJUNCTIVE, NOT_MADE, WEAKENED
from ray_pubsub.kernels.texts.sets import AFTER, BEFORE, EXCLUDED, NO_SIDE, OPAQUE, PATTERNED, PLAIN, PREDICATE

__all__ = [
    "ADMITS_ALL", "ADMITS_NONE", "NOT_COMPUTED", "PART", "PASSED", "TESTED", "ComputedSets", "count_records", "used_sets", "write_records",
]  # fmt: skip

ADMITS_NONE, ADMITS_ALL, NOT_COMPUTED = -1, -2, -3
PASSED, PART, TESTED = 1, 2, 3
"""What a node is used for (`used_sets`)."""
SHARED_SIZE, SHARED_USES = 8, 4
"""A set of this many records in this many clauses is written once, in columns, and not in every clause: multiplying out repeats sets."""
ALTERNATIVE_FLAG, CONTINUED_FLAG, EXCLUDED_FLAG = 2, 4, 8
"""Of a record's form."""


class ComputedSets(NamedTuple):
    """The sets that were computed. Of node n, the records[starts[k]:starts[k + 1]] with k = number[n]; ADMITS_NONE, ADMITS_ALL or
    NOT_COMPUTED in the place of k."""

    number: Any
    starts: Any
    records: Any
    attributes: Any
    """Not a set: the numbers that attributes have in the records."""


@compiled
def used_sets(nodes, count, tests, tests_count, runs):
    """Returns which nodes must be computed, how many are TESTED, and how many of those are a pattern alone.

    A node is TESTED by a clause, or a PART of what is. One that occurs once, in another of the same origin, is only PASSED through, and so
    is a predicate: chains of unions or intersections are computed at once, since one after the other would be quadratic. Without `runs`,
    whatever takes more than one record is computed."""
    used = np.zeros(count, np.uint8)
    uses = np.zeros(count, np.int32)
    for place in range(tests_count):
        node = nodes[tests[place]]
        uses[tests[place]] += 1
        repeats = node.size >= SHARED_SIZE and uses[tests[place]] >= SHARED_USES
        if node.sort >= OPAQUE or repeats or not (runs or node.sort == PLAIN):
            used[tests[place]] = TESTED
    tested = alone = 0
    for number in range(count - 1, -1, -1):
        if used[number] == 0:
            continue
        node = nodes[number]
        tested += used[number] == TESTED
        if node.origin == PREDICATE:
            alone += used[number] == TESTED and node.sort == PATTERNED
            continue
        for part in (node.left, node.right):
            alike = nodes[part].origin == node.origin or nodes[part].origin == PREDICATE
            used[part] = max(used[part], PASSED if alike and used[part] == 0 else PART)
    return used, tested, alone


@piece
def count_alternatives(nodes, starts, tests, clause_offsets, text, form, sets, sizes):
    """The sizes of the clauses of one text in conjunctive form. Returns its form."""
    first, last = clause_offsets[text], clause_offsets[text + 1]
    kept, never = 0, False
    for clause in range(first, last):
        size, always = 0, False
        for place in range(starts[clause], starts[clause + 1]):
            number = sets.number[tests[place]]
            if number == NOT_COMPUTED:
                size += nodes[tests[place]].size
            elif number >= 0:
                size += sets.starts[number + 1] - sets.starts[number]
            else:
                always |= number == ADMITS_ALL
        sizes[clause] = -1 if always else size
        never |= size == 0 and not always
        kept += not always
    if never or kept == 0:
        for clause in range(first, last):
            sizes[clause] = -1
    if never:
        return DISJUNCTIVE  # of no clauses
    return form if kept else NOT_MADE


@compiled
def count_records(nodes, starts, tests, clause_offsets, form, sets, sizes):
    """sizes[c]: how many records clause c takes, -1 for one that is left out, because it can never hold. In a conjunctive form a set that
    admits nothing is left out of its clause, and one that admits everything makes its clause superfluous; a form of which nothing remains
    is not made after all."""
    for text in range(len(form)):
        if form[text] in (CONJUNCTIVE, WEAKENED):
            form[text] = count_alternatives(nodes, starts, tests, clause_offsets, text, form[text], sets, sizes)
            continue
        for clause in range(clause_offsets[text], clause_offsets[text + 1]):
            size = 0
            for place in range(starts[clause], starts[clause + 1]):
                node = nodes[tests[place]]
                number = sets.number[tests[place]]
                if number == NOT_COMPUTED:
                    size += node.size
                elif number >= 0:
                    size += sets.starts[number + 1] - sets.starts[number]
                elif number == ADMITS_NONE:
                    size = -1
                    break
            sizes[clause] = size


@piece
def put_piece(record, attribute, kind, flags):
    record.attribute, record.form, record.kind = attribute, flags, kind


@piece
def put_point(record, operand):
    record.low_side, record.high_side = BEFORE, AFTER
    record.low_whole = record.high_whole = operand.whole
    record.low_rest = record.high_rest = operand.rest


@piece
def put_predicate(parsed, node, attribute, flags, records, at):
    """The records of a predicate that is a RUN, or EXCLUDED."""
    leaf = parsed.leaves[node.left]
    first, last = leaf.first, parsed.leaves[node.left + 1].first
    if leaf.operator == BETWEEN:  # what lies before it and what lies behind it
        low, high = parsed.operands[first], parsed.operands[first + 1]
        put_piece(records[at], attribute, node.kind, flags)
        put_point(records[at], low)
        records[at].low_side, records[at].high_side = NO_SIDE, BEFORE
        put_piece(records[at + 1], attribute, node.kind, flags | CONTINUED_FLAG)
        put_point(records[at + 1], high)
        records[at + 1].low_side, records[at + 1].high_side = AFTER, NO_SIDE
        return at + 2
    for place in range(first, last):
        if parsed.operands[place].kind != UNKNOWN:
            put_piece(records[at], attribute, node.kind, flags)
            put_point(records[at], parsed.operands[place])
            flags |= CONTINUED_FLAG
            at += 1
    return at


@piece
def put_set(parsed, nodes, number, attribute, flags, records, at, stack):
    """The records of a set that was not computed."""
    if nodes[number].sort == EXCLUDED:
        flags |= EXCLUDED_FLAG
    depth = 1
    stack[0] = number
    while depth > 0:
        depth -= 1
        node = nodes[stack[depth]]
        if node.sort == PLAIN:
            record = records[at]
            put_piece(record, attribute, node.kind, flags)
            record.low_side, record.low_whole, record.low_rest = node.low_side, node.low_whole, node.low_rest
            record.high_side, record.high_whole, record.high_rest = node.high_side, node.high_whole, node.high_rest
            at += 1
        elif node.origin == PREDICATE:
            at = put_predicate(parsed, node, attribute, flags, records, at)
        else:
            stack[depth], stack[depth + 1] = node.right, node.left
            depth += 2
            continue
        flags |= CONTINUED_FLAG
    return at


@compiled
def write_records(parsed, work, clause_offsets, form, sizes, sets, table):
    """Writes all clauses that can hold to a table (ClauseRows). Returns how many clauses there are."""
    owners, offsets, records = table
    nodes, starts, tests = work.nodes, work.found.starts, work.found.tests
    stack = np.empty(work.state[0] + 2, np.int32)
    count = at = 0
    for text in range(len(form)):
        alternative = ALTERNATIVE_FLAG if form[text] >= CONJUNCTIVE else 0
        for clause in range(clause_offsets[text], clause_offsets[text + 1]):
            if sizes[clause] < 0:
                continue
            for place in range(starts[clause], starts[clause + 1]):
                number = tests[place]
                if sets.number[number] == NOT_COMPUTED:
                    attribute = sets.attributes[nodes[number].attribute]
                    at = put_set(parsed, nodes, number, attribute, alternative, records, at, stack)
                elif sets.number[number] >= 0:
                    for computed in range(sets.starts[sets.number[number]], sets.starts[sets.number[number] + 1]):
                        records[at] = sets.records[computed]
                        records[at].form |= alternative
                        at += 1
            owners[count] = text
            count += 1
            offsets[count] = at
    return count
