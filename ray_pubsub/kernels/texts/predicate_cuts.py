"""Predicates as cuts (cuts.py): the sets of values for which a predicate, or its negation, is true."""

from __future__ import annotations

from typing import Any, NamedTuple

from ray_pubsub.kernels.compiled import piece
from ray_pubsub.kernels.texts.cuts import (
    ABOVE,
    ABSENCE,
    BEHIND,
    BELOW,
    HIGHEST,
    LEAD,
    LOWEST,
    Edge,
    put_cut,
    put_everything,
    put_interval,
)
from ray_pubsub.kernels.texts.layout import (
    BETWEEN,
    GREATER,
    GREATER_OR_EQUAL,
    LESS,
    LIKE,
    MEMBER,
    STRING,
    UNEQUAL,
    UNKNOWN,
)
from ray_pubsub.kernels.texts.sets import BEFORE, NO_SIDE, PLAIN

__all__ = [
    "EQUALITY",
    "EXCLUDED",
    "IN_ANY_ORDER",
    "IN_ORDER",
    "MOST_PLAIN_CUTS",
    "NO_SUCCESSOR",
    "StringOrder",
    "put_predicate",
]

NO_SUCCESSOR, EQUALITY = -1, -2
"""In `prefix_end`: no string lies above all with the prefix; the pattern is no prefix but the whole string."""
IN_ORDER, IN_ANY_ORDER, EXCLUDED = 0, 1, 2
"""How the cuts of a predicate are written: sorted; not; not, and the set is all others."""
MOST_PLAIN_CUTS = 14
"""Of a predicate without a list of constants, with the two that a complement adds."""


class StringOrder(NamedTuple):
    """The strings in question, in order."""

    rank: Any
    """By string number."""
    number: Any
    """By rank."""
    prefix: Any
    """By the string number of a `like` that is a prefix: the string number of the prefix."""
    prefix_end: Any
    """And the string number of the least string above it."""


@piece
def ordered(operand, rank):
    return rank[operand.whole] if operand.kind == STRING else operand.whole


@piece
def put_point(cuts, at, operand, rank):
    whole = ordered(operand, rank)
    put_cut(cuts[at], operand.kind, LEAD, whole, operand.rest, 1)
    put_cut(cuts[at + 1], operand.kind, BEHIND, whole, operand.rest, -1)
    return at + 2


@piece
def put_below(cuts, at, operand, place, rank):
    whole = ordered(operand, rank)
    return put_interval(cuts, at, operand.kind, LOWEST, Edge(place, whole, operand.rest))


@piece
def put_above(cuts, at, operand, place, rank):
    whole = ordered(operand, rank)
    return put_interval(cuts, at, operand.kind, Edge(place, whole, operand.rest), HIGHEST)


@piece
def put_bounds(cuts, at, node, rank):
    """The interval of a PLAIN node."""
    low, high = node.low_whole, node.high_whole
    if node.kind == STRING:
        low, high = rank[low], rank[high]
    low_place = BELOW if node.low_side == NO_SIDE else LEAD if node.low_side == BEFORE else BEHIND
    high_place = ABOVE if node.high_side == NO_SIDE else LEAD if node.high_side == BEFORE else BEHIND
    low_edge, high_edge = Edge(low_place, low, node.low_rest), Edge(high_place, high, node.high_rest)
    return put_interval(cuts, at, node.kind, low_edge, high_edge)


@piece
def put_compared(cuts, at, operator, operand, rank):
    if operator == UNEQUAL:
        at = put_below(cuts, at, operand, LEAD, rank)
        return put_above(cuts, at, operand, BEHIND, rank)
    if operator == GREATER:
        return put_above(cuts, at, operand, BEHIND, rank)
    if operator == GREATER_OR_EQUAL:
        return put_above(cuts, at, operand, LEAD, rank)
    return put_below(cuts, at, operand, LEAD if operator == LESS else BEHIND, rank)


@piece
def put_between(cuts, at, low, high, negated, rank):
    """`x >= low and x <= high`; a null bound makes its half unknown, so only the other half's falsehood is certain."""
    if negated:
        if low.kind != UNKNOWN:
            at = put_below(cuts, at, low, LEAD, rank)
        return put_above(cuts, at, high, BEHIND, rank) if high.kind != UNKNOWN else at
    if low.kind == UNKNOWN or high.kind == UNKNOWN:
        return at
    first, last = ordered(low, rank), ordered(high, rank)
    return put_interval(cuts, at, low.kind, Edge(LEAD, first, low.rest), Edge(BEHIND, last, high.rest))


@piece
def put_prefixed(cuts, at, number, order):
    """The strings that a `like` without wildcards, but at its end, admits."""
    low, end = order.rank[order.prefix[number]], order.prefix_end[number]
    first = Edge(LEAD, low, 0.0)
    if end == EQUALITY:
        return put_interval(cuts, at, STRING, first, Edge(BEHIND, low, 0.0))
    if end == NO_SUCCESSOR:
        return put_interval(cuts, at, STRING, first, HIGHEST)
    return put_interval(cuts, at, STRING, first, Edge(LEAD, order.rank[end], 0.0))


@piece
def put_predicate(leaves, operands, node, order, cuts, at):
    """The cuts of a predicate or its negation; where they end, and in which order they are."""
    rank = order.rank
    if node.sort == PLAIN:
        return put_bounds(cuts, at, node, rank), IN_ORDER
    leaf = leaves[node.left]
    first, operator = leaf.first, leaf.operator
    negated = (leaf.negated != 0) != (node.right != 0)
    if operator < BETWEEN:
        return put_compared(cuts, at, operator ^ 1 if negated else operator, operands[first], rank), IN_ORDER
    if operator == BETWEEN:
        return put_between(cuts, at, operands[first], operands[first + 1], negated, rank), IN_ANY_ORDER
    if operator == MEMBER:
        for constant in range(first, leaves[node.left + 1].first):
            if operands[constant].kind != UNKNOWN:
                at = put_point(cuts, at, operands[constant], rank)
        return at, EXCLUDED if negated else IN_ANY_ORDER
    if operator == LIKE:
        return put_prefixed(cuts, at, operands[first].whole, order), EXCLUDED if negated else IN_ORDER
    # `is null`
    if not negated:
        return put_everything(cuts, at, ABSENCE), IN_ORDER
    for kind in range(ABSENCE):
        at = put_everything(cuts, at, kind)
    return at, IN_ORDER
