"""Sets of values of one attribute, as nodes: a predicate (or its negation), the union or the intersection of two nodes.

Most sets can be written as records without ever being computed: one interval (PLAIN), pieces in any order (RUN), everything of a kind but
some points (EXCLUDED). The others (OPAQUE; PATTERNED if a pattern is part of it) are computed by Python, once per distinct predicate.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.compiled import piece
from ray_pubsub.kernels.texts.layout import (
    ABSENCE,
    BARE,
    BETWEEN,
    BOOLEAN,
    CONSTANT,
    EQUAL,
    GREATER,
    GREATER_OR_EQUAL,
    LESS_OR_EQUAL,
    LIKE,
    MEMBER,
    NUMBER,
    REGEXP,
    STRING,
    TIMESTAMP,
    UNEQUAL,
    UNKNOWN,
)

__all__ = [
    "AFTER", "ALWAYS", "BEFORE", "EMPTY", "EXCLUDED", "INTERSECTION", "NODE", "NO_SIDE", "OPAQUE", "PATTERNED", "PLAIN", "PREDICATE", "RUN",
    "UNION", "intersected", "literal", "united",
]  # fmt: skip

NODE = np.dtype(
    [
        ("low_whole", "<i8"),  # the bounds of a PLAIN one
        ("low_rest", "<f8"),
        ("high_whole", "<i8"),
        ("high_rest", "<f8"),
        ("left", "<i4"),  # nodes; of a PREDICATE the leaf, and whether it is negated
        ("right", "<i4"),
        ("attribute", "<i4"),
        ("size", "<i4"),  # how many records it takes; of an opaque one, what it is made of
        ("sort", "u1"),
        ("origin", "u1"),
        ("kind", "u1"),
        ("low_side", "u1"),
        ("high_side", "u1"),
    ],
    align=True,
)
PLAIN, RUN, EXCLUDED, OPAQUE, PATTERNED = 0, 1, 2, 3, 4
PREDICATE, UNION, INTERSECTION = 0, 1, 2
BEFORE, AFTER, NO_SIDE = 0, 1, 2
MIXED = 255
"""The kind of a set of several."""
EMPTY, ALWAYS = -1, -2
"""In the place of a node."""


class Source(NamedTuple):
    """What a node is made of; see NODE."""

    origin: Any
    left: Any
    right: Any


@piece
def new_node(nodes, state, sort, source, attribute, kind, size):
    number = state[0]
    state[0] += 1
    node = nodes[number]
    node.sort, node.origin, node.left, node.right = sort, source.origin, source.left, source.right
    node.attribute, node.kind, node.size = attribute, kind, size
    return number


@piece
def set_bounds(node, low_side, low, high_side, high):
    """`low` and `high` are operands."""
    node.low_side, node.high_side = low_side, high_side
    node.low_whole, node.low_rest = low.whole, low.rest
    node.high_whole, node.high_rest = high.whole, high.rest


@piece
def is_beyond(whole, rest, side, other_whole, other_rest, other_side):
    """Returns whether a cut lies behind another."""
    if whole != other_whole:
        return whole > other_whole
    if rest != other_rest:
        return rest > other_rest
    return side > other_side


@piece
def is_void(node):
    if node.low_side == NO_SIDE or node.high_side == NO_SIDE:
        return False
    return not is_beyond(node.high_whole, node.high_rest, node.high_side, node.low_whole, node.low_rest, node.low_side)


@piece
def compared(leaves, operands, number, negated, nodes, state):
    leaf, source = leaves[number], Source(PREDICATE, number, negated)
    operand = operands[leaf.first]
    kind, operator = operand.kind, leaf.operator
    if kind == UNKNOWN:
        return EMPTY
    if negated:
        operator ^= 1
    if operator == EQUAL or (operator == UNEQUAL and kind == BOOLEAN):
        found = new_node(nodes, state, PLAIN, source, leaf.attribute, kind, 1)
        set_bounds(nodes[found], BEFORE, operand, AFTER, operand)
        if operator == UNEQUAL:
            nodes[found].low_whole = nodes[found].high_whole = 1 - operand.whole
        return found
    if kind == BOOLEAN or (kind == STRING and operator != UNEQUAL):
        return new_node(nodes, state, OPAQUE, source, leaf.attribute, MIXED, 1)
    if operator == UNEQUAL:
        return new_node(nodes, state, EXCLUDED, source, leaf.attribute, kind, 1)
    found = new_node(nodes, state, PLAIN, source, leaf.attribute, kind, 1)
    if operator in (GREATER, GREATER_OR_EQUAL):
        set_bounds(nodes[found], AFTER if operator == GREATER else BEFORE, operand, NO_SIDE, operand)
    else:
        set_bounds(nodes[found], NO_SIDE, operand, AFTER if operator == LESS_OR_EQUAL else BEFORE, operand)
    return found


@piece
def member(leaves, operands, number, negated, nodes, state):
    leaf, source = leaves[number], Source(PREDICATE, number, negated)
    exclusive = (leaf.negated != 0) != negated
    kind, points, last = UNKNOWN, 0, leaf.first
    for place in range(leaf.first, leaves[number + 1].first):
        if operands[place].kind != UNKNOWN:
            kind, last = operands[place].kind, place
            points += 1
        elif exclusive:
            return EMPTY  # `x not in (1, null)` is never true
    if points == 0:
        return EMPTY
    if exclusive:
        sort = OPAQUE if kind == BOOLEAN else EXCLUDED
        return new_node(nodes, state, sort, source, leaf.attribute, kind, points)
    sort = PLAIN if points == 1 else RUN
    found = new_node(nodes, state, sort, source, leaf.attribute, kind, points)
    set_bounds(nodes[found], BEFORE, operands[last], AFTER, operands[last])
    return found


@piece
def between(leaves, operands, number, negated, nodes, state):
    leaf, source = leaves[number], Source(PREDICATE, number, negated)
    low, high = operands[leaf.first], operands[leaf.first + 1]
    kind = low.kind
    if kind != high.kind or (kind != NUMBER and kind != TIMESTAMP):
        return new_node(nodes, state, OPAQUE, source, leaf.attribute, MIXED, 1)
    if (leaf.negated != 0) != negated:
        return new_node(nodes, state, RUN, source, leaf.attribute, kind, 2)
    found = new_node(nodes, state, PLAIN, source, leaf.attribute, kind, 1)
    set_bounds(nodes[found], BEFORE, low, AFTER, high)
    return EMPTY if is_void(nodes[found]) else found


@piece
def literal(leaves, operands, number, negated, nodes, state):
    """The set of values for which a predicate, or its negation, is true."""
    leaf, source = leaves[number], Source(PREDICATE, number, negated)
    operator = leaf.operator
    if operator < BETWEEN:
        return compared(leaves, operands, number, negated, nodes, state)
    if operator == MEMBER:
        return member(leaves, operands, number, negated, nodes, state)
    if operator == BETWEEN:
        return between(leaves, operands, number, negated, nodes, state)
    if operator == CONSTANT:
        operand = operands[leaf.first]
        return EMPTY if operand.kind == UNKNOWN or (operand.whole != 0) == negated else ALWAYS
    if operator == BARE:
        found = new_node(nodes, state, PLAIN, source, leaf.attribute, BOOLEAN, 1)
        node = nodes[found]
        node.low_side, node.high_side, node.low_rest, node.high_rest = BEFORE, AFTER, 0.0, 0.0
        node.low_whole = node.high_whole = 0 if negated else 1
        return found
    patterned = operator == REGEXP or (operator == LIKE and leaf.prefix == 0)
    sort = PATTERNED if patterned else OPAQUE
    kind = MIXED if operator == ABSENCE else STRING
    return new_node(nodes, state, sort, source, leaf.attribute, kind, 1)


@piece
def united(first, second, nodes, state):
    """What one of two sets of an attribute admits. Neither is PATTERNED."""
    left, right = nodes[first], nodes[second]
    kind = left.kind if left.kind == right.kind else MIXED
    sort = RUN if left.sort <= RUN and right.sort <= RUN else OPAQUE
    return new_node(nodes, state, sort, Source(UNION, first, second), left.attribute, kind, left.size + right.size)


@piece
def intersected(first, second, nodes, state):
    """What both of two sets of an attribute admit."""
    left, right, source = nodes[first], nodes[second], Source(INTERSECTION, first, second)
    if left.kind != MIXED and right.kind != MIXED and left.kind != right.kind:
        return EMPTY
    if left.sort == PLAIN and right.sort == PLAIN:
        number = new_node(nodes, state, PLAIN, source, left.attribute, left.kind, 1)
        node = nodes[number]
        lower, upper = left, left
        if right.low_side != NO_SIDE and (
            left.low_side == NO_SIDE
            or is_beyond(right.low_whole, right.low_rest, right.low_side, left.low_whole, left.low_rest, left.low_side)
        ):
            lower = right
        if right.high_side != NO_SIDE and (
            left.high_side == NO_SIDE
            or is_beyond(
                left.high_whole, left.high_rest, left.high_side, right.high_whole, right.high_rest, right.high_side
            )
        ):
            upper = right
        node.low_side, node.low_whole, node.low_rest = lower.low_side, lower.low_whole, lower.low_rest
        node.high_side, node.high_whole, node.high_rest = upper.high_side, upper.high_whole, upper.high_rest
        return EMPTY if is_void(node) else number
    if left.sort == EXCLUDED and right.sort == EXCLUDED:
        size = left.size + right.size
        return new_node(nodes, state, EXCLUDED, source, left.attribute, left.kind, size)
    sort = PATTERNED if left.sort == PATTERNED or right.sort == PATTERNED else OPAQUE
    kind = left.kind if left.kind == right.kind else MIXED
    size = left.size + right.size
    return new_node(nodes, state, sort, source, left.attribute, kind, size)
