"""From programs to clauses: the disjunctive form of every text or, where that is too large, the conjunctive one (language/normal_form.py).

Both are made by one routine, from the leaves up. What a part of a text means is a list of clauses, a clause is a list of tests (nodes of
sets.py) ordered by attribute. In the disjunctive form `or` puts two lists one behind the other and `and` multiplies them; in the
conjunctive form it is the other way round. Where even the conjunctive form is too large, a weaker clause stands for an `or`: it holds
whenever the `or` does (columns/disjunctions.py), and the text is marked as one that must be evaluated on what is found.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.compiled import compiled, piece
from ray_pubsub.kernels.texts.layout import NOT
from ray_pubsub.kernels.texts.negation import mark_negated
from ray_pubsub.kernels.texts.sets import EMPTY, NODE, OPAQUE, PATTERNED, PLAIN, intersected, literal, united

__all__ = [
    "CLAUSES",
    "CONJUNCTIVE",
    "DISJUNCTIVE",
    "MOST_EFFORT",
    "NODES",
    "NOT_MADE",
    "TESTS",
    "WEAKENED",
    "Clauses",
    "Work",
    "normalize_texts",
    "room_for",
]

DISJUNCTIVE, CONJUNCTIVE, WEAKENED, NOT_MADE = 0, 1, 2, 3
MOST_ROOM = 1 << 20
"""Tests and nodes that one text may take while it is worked on; what needs more is kept in a weaker form."""
MOST_EFFORT = 1 << 17
"""Tests written to multiply one text out, and predicates of the sets that Python computes for it: an `add` stays within half a second."""
EFFORT_DISJUNCTIVE, EFFORT_CONJUNCTIVE = 128, 16
"""That effort, for each predicate. A conjunctive form that takes more is kept as a weaker one: it is a tenth of the size, finds hardly more
candidates, and matching is no slower, but adding three times as fast."""
NODES, TESTS, CLAUSES, LISTS, EFFORT, WEAKER = 0, 1, 2, 3, 4, 5
"""What is counted in `state`."""


class Clauses(NamedTuple):
    """Clause c is tests[starts[c]:starts[c + 1]]."""

    tests: Any
    starts: Any


class Work(NamedTuple):
    """The nodes and clauses of many texts, and scratch memory."""

    nodes: Any
    found: Clauses
    """Clauses of finished texts, and above them those of the parts of the text that is worked on."""
    lists: Any
    """Where the clauses of every part begin."""
    first: Clauses
    second: Clauses
    """Of a product, in turn."""
    seen: Any
    """Attribute → where a test of it is, if its mark is the current one."""
    marks: Any
    negated: Any
    state: Any

    @classmethod
    def with_room(cls, room: int, longest: int, attributes: int) -> Work:
        """`room`: tests, `longest`: the largest program."""

        def clauses() -> Clauses:
            return Clauses(np.empty(room, np.int32), np.zeros(room + 1, np.int64))

        return cls(
            np.empty(room, NODE), clauses(), np.zeros(longest + 2, np.int64), clauses(), clauses(),
            np.zeros(attributes + 1, np.int64), np.zeros(attributes + 1, np.int64), np.zeros(longest + 1, np.int8), np.zeros(8, np.int64),
        )  # fmt: skip


def room_for(leaves: int, most_clauses: int) -> int:
    """How much a text of this many leaves may take."""
    return min(8 * max(most_clauses, leaves) * (leaves + 2), MOST_ROOM)


@piece
def sort_tests(tests, start, stop, nodes):
    """By attribute. Mostly they are few, or in order."""
    gap = 1
    while gap < (stop - start) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for place in range(start + gap, stop):
            test = tests[place]
            attribute = nodes[test].attribute
            free = place
            while free >= start + gap and nodes[tests[free - gap]].attribute > attribute:
                tests[free] = tests[free - gap]
                free -= gap
            tests[free] = test
        gap //= 3


@piece
def add_tests(source, start, stop, target, end, conjunctive, work):
    """Adds tests to the last clause of `target`, which ends at `end` and whose attributes are marked; its new end, or EMPTY if it can
    never hold."""
    nodes, state, mark = work.nodes, work.state, work.marks[len(work.marks) - 1]
    for place in range(start, stop):
        test = source[place]
        attribute = nodes[test].attribute
        alone = conjunctive and nodes[test].sort == PATTERNED
        if not alone and work.marks[attribute] == mark:
            there = work.seen[attribute]
            if target[there] != test:
                joined = (
                    united(target[there], test, nodes, state)
                    if conjunctive
                    else intersected(target[there], test, nodes, state)
                )
                if joined == EMPTY:
                    return EMPTY
                target[there] = joined
                if nodes[joined].sort >= OPAQUE:
                    state[EFFORT] += nodes[joined].size
            continue
        if not alone:
            work.marks[attribute], work.seen[attribute] = mark, end
        target[end] = test
        end += 1
    state[EFFORT] += stop - start
    return end


@piece
def start_clause(work):
    work.marks[len(work.marks) - 1] += 1


@piece
def put_list(clauses, count, place, work):
    """The clauses take the place of the lists from `place` on."""
    found, _state = work.found, work.state
    clause = work.lists[place]
    end = found.starts[clause]
    for number in range(count):
        for test in range(clauses.starts[number], clauses.starts[number + 1]):
            found.tests[end] = clauses.tests[test]
            end += 1
        clause += 1
        found.starts[clause] = end
    finish_list(clause, place, work)


@piece
def finish_list(clause, place, work):
    """What is behind `clause` is given up; the list at `place` is the last."""
    state = work.state
    work.lists[place + 1] = clause
    state[LISTS] = place + 1
    state[CLAUSES] = clause
    state[TESTS] = work.found.starts[clause]


@piece
def has_room(work, tests):
    """Returns whether this many more tests and nodes can be made."""
    state = work.state
    taken = max(state[NODES], state[TESTS], state[CLAUSES])
    return taken + tests < len(work.nodes) and tests < len(work.first.tests)


@piece
def weaker_clause(place, work):
    """One clause for a product that is too large: of every factor the shortest."""
    found, lists, state = work.found, work.lists, work.state
    start_clause(work)
    end = 0
    for factor in range(place, state[LISTS]):
        shortest = lists[factor]
        for clause in range(lists[factor], lists[factor + 1]):
            if found.starts[clause + 1] - found.starts[clause] < found.starts[shortest + 1] - found.starts[shortest]:
                shortest = clause
        end = add_tests(
            found.tests, found.starts[shortest], found.starts[shortest + 1], work.first.tests, end, True, work
        )
    work.first.starts[0], work.first.starts[1] = 0, end
    state[WEAKER] = 1
    put_list(work.first, 1, place, work)


@piece
def multiply(place, conjunctive, bound, work):
    """The lists from `place` on become their product; False if that is too large."""
    found, lists, state = work.found, work.lists, work.state
    last = state[LISTS]
    product = 1.0
    for factor in range(place, last):
        if lists[factor] == lists[factor + 1]:
            finish_list(lists[place], place, work)
            return True
        product *= lists[factor + 1] - lists[factor]
    # In the disjunctive form contradictions vanish. Where that would have to be most of the product, it is not worth a try.
    if product > (bound if conjunctive else bound * bound):
        return False
    if not has_room(work, found.starts[lists[last]] - found.starts[lists[place]] + 1):
        return False
    most_effort = min(MOST_EFFORT, bound * (EFFORT_CONJUNCTIVE if conjunctive else EFFORT_DISJUNCTIVE))
    left, right = work.first, work.second
    start_clause(work)
    end = 0
    for factor in range(place, last):
        clause = lists[factor]
        if lists[factor + 1] - clause == 1:
            end = add_tests(
                found.tests, found.starts[clause], found.starts[clause + 1], left.tests, end, conjunctive, work
            )
            if end == EMPTY:
                finish_list(lists[place], place, work)
                return True
    left.starts[0], left.starts[1] = 0, end
    count = 1
    for factor in range(place, last):
        clauses = lists[factor + 1] - lists[factor]
        if clauses == 1:
            continue
        tests = found.starts[lists[factor + 1]] - found.starts[lists[factor]]
        effort = (left.starts[count] + count) * clauses + tests * count
        if count * clauses > 4 * bound or state[EFFORT] + effort > most_effort or not has_room(work, effort):
            return False
        made, end = 0, 0
        for one in range(count):
            if state[EFFORT] > MOST_EFFORT:
                return False
            for other in range(lists[factor], lists[factor + 1]):
                start_clause(work)
                begin = end
                end = add_tests(
                    left.tests, left.starts[one], left.starts[one + 1], right.tests, begin, conjunctive, work
                )
                end = add_tests(
                    found.tests,
                    found.starts[other],
                    found.starts[other + 1],
                    right.tests,
                    end,
                    conjunctive,
                    work,
                )
                if end == EMPTY:
                    end = begin
                    continue
                right.starts[made] = begin
                made += 1
        right.starts[made] = end
        if made > bound:
            return False
        left, right, count = right, left, made
    put_list(left, count, place, work)
    return True


@piece
def append_lists(place, conjunctive, work):
    """The lists from `place` on become one. Clauses of one test each on the same attribute become one."""
    found, lists, state, nodes = work.found, work.lists, work.state, work.nodes
    start_clause(work)
    mark = work.marks[len(work.marks) - 1]
    clause = first = lists[place]
    last = lists[state[LISTS]]
    start = end = found.starts[first]
    for number in range(first, last):
        stop = found.starts[number + 1]
        if start == stop:  # an empty clause decides it
            found.starts[first + 1] = found.starts[first]
            finish_list(first + 1, place, work)
            return
        joined = False
        if stop - start == 1:
            test = found.tests[start]
            attribute = nodes[test].attribute
            if nodes[test].sort == PLAIN if conjunctive else nodes[test].sort != PATTERNED:
                if work.marks[attribute] == mark:
                    there = work.seen[attribute]
                    node = (
                        intersected(found.tests[there], test, nodes, state)
                        if conjunctive
                        else united(found.tests[there], test, nodes, state)
                    )
                    if node == EMPTY:
                        found.starts[first + 1] = found.starts[first]
                        finish_list(first + 1, place, work)
                        return
                    found.tests[there] = node
                    joined = True
                else:
                    work.marks[attribute], work.seen[attribute] = mark, end
        if not joined:
            for test in range(start, stop):
                found.tests[end] = found.tests[test]
                end += 1
            clause += 1
            found.starts[clause] = end
        start = stop
    finish_list(clause, place, work)


@piece
def put_leaf(node, conjunctive, work):
    """One more list: a clause of one test, no clause, or one without tests."""
    state = work.state
    clause, test = state[CLAUSES], state[TESTS]
    if node >= 0:
        work.found.tests[test] = node
        test += 1
    if node >= 0 or (node == EMPTY) == conjunctive:
        clause += 1
        work.found.starts[clause] = test
    work.lists[state[LISTS] + 1] = clause
    state[LISTS] += 1
    state[CLAUSES], state[TESTS] = clause, test


@piece
def normalize_text(parsed, text, conjunctive, most_clauses, work):
    """The clauses of one text, behind those found; False if they are too many."""
    program, start, stop = parsed.program, parsed.program_offsets[text], parsed.program_offsets[text + 1]
    leaves = parsed.leaf_offsets[text + 1] - parsed.leaf_offsets[text]
    bound = max(most_clauses, leaves)
    state = work.state
    base = state[CLAUSES]
    mark_negated(program, start, stop, work.lists, work.negated)
    work.lists[0] = base
    state[LISTS] = 0
    state[EFFORT] = 0
    state[WEAKER] = 0
    for place in range(start, stop):
        item, negated = program[place], work.negated[place - start] != 0
        if item == NOT:
            continue
        if item >= 0:
            if not has_room(work, 1):
                return False
            put_leaf(literal(parsed.leaves, parsed.operands, item, negated, work.nodes, state), conjunctive, work)
            continue
        first = state[LISTS] - (-item >> 1)
        is_and = (item & 1 == 0) != negated
        if is_and == conjunctive:
            if not has_room(work, work.lists[state[LISTS]] - work.lists[first] + 1):
                return False
            append_lists(first, conjunctive, work)
        elif not multiply(first, conjunctive, bound, work):
            if not conjunctive or not has_room(work, state[TESTS] - work.found.starts[work.lists[first]] + 1):
                return False
            weaker_clause(first, work)
    for clause in range(base, state[CLAUSES]):  # once, not for every product that it came from
        sort_tests(work.found.tests, work.found.starts[clause], work.found.starts[clause + 1], work.nodes)
    return True


@compiled
def normalize_texts(parsed, read, first, last, most_clauses, work, form, clause_offsets):
    """The clauses of the texts from `first` on that were read, until there is no more room: which text comes next. form[t]
    says what text t is now; its clauses are those of `work.found` up to clause_offsets[t + 1]."""
    state = work.state
    state[NODES] = state[TESTS] = state[CLAUSES] = 0
    work.found.starts[0] = 0
    for text in range(first, last):
        leaves = parsed.leaf_offsets[text + 1] - parsed.leaf_offsets[text]
        needed = min(8 * max(most_clauses, leaves) * (leaves + 2), MOST_ROOM)
        free = len(work.nodes) - max(state[NODES], state[TESTS], state[CLAUSES])
        if text > first and free < needed:
            return text
        clause_offsets[text - first] = base = state[CLAUSES]
        nodes, tests = state[NODES], state[TESTS]
        form[text] = NOT_MADE
        if read[text]:
            if normalize_text(parsed, text, False, most_clauses, work):
                form[text] = DISJUNCTIVE
            else:
                state[NODES], state[TESTS], state[CLAUSES] = nodes, tests, base
                if normalize_text(parsed, text, True, most_clauses, work) and state[CLAUSES] > base:
                    form[text] = WEAKENED if state[WEAKER] else CONJUNCTIVE
                    if work.found.starts[base + 1] == work.found.starts[base]:  # one that can never hold
                        form[text] = DISJUNCTIVE
                        state[CLAUSES], state[TESTS] = base, tests
        if form[text] == NOT_MADE:
            state[NODES], state[TESTS], state[CLAUSES] = nodes, tests, base
        clause_offsets[text - first + 1] = state[CLAUSES]
    return last
