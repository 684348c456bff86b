"""Finds the routes of texts that kernels/texts has parsed: the attributes of which an event must have one (see sharding/pivots.py)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.compiled import compiled, piece
from ray_pubsub.kernels.texts.layout import ABSENCE, BETWEEN, CONSTANT, NOT, UNKNOWN
from ray_pubsub.kernels.texts.negation import mark_negated

__all__ = ["UNIVERSAL", "Attributes", "routes_of_programs"]

UNIVERSAL = -1
"""The length of a route that any event has."""


class Attributes(NamedTuple):
    """`rank`: attribute → its rank as a pivot, the best first; UNIVERSAL if any event may have a value for it. `frequency`: of ranks."""

    rank: Any
    frequency: Any


@piece
def is_cheaper(ranks, first, first_length, second, second_length, frequency):
    """Returns whether the first route costs less: by the share of events that can carry one of its attributes, by their number, by the
    attributes, the worst first. Both are sorted, the worst first."""
    first_share = second_share = 0.0
    for place in range(first_length):
        first_share += frequency[ranks[first + place]]
    for place in range(second_length):
        second_share += frequency[ranks[second + place]]
    if first_share != second_share:
        return first_share < second_share
    if first_length != second_length:
        return first_length < second_length
    for place in range(first_length):
        if ranks[first + place] != ranks[second + place]:
            return ranks[first + place] < ranks[second + place]
    return False


@piece
def unite(ranks, start, count, lengths, marks, mark):
    """The routes that follow each other at `start` become one: each rank once, the worst first. Returns its length."""
    read = end = start
    for route in range(count):
        for _ in range(lengths[route]):
            rank = ranks[read]
            read += 1
            if marks[rank] != mark:
                marks[rank] = mark
                ranks[end] = rank
                end += 1
    gap = 1
    while gap < (end - start) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for place in range(start + gap, end):
            rank = ranks[place]
            free = place
            while free >= start + gap and ranks[free - gap] < rank:
                ranks[free] = ranks[free - gap]
                free -= gap
            ranks[free] = rank
        gap //= 3
    return end - start


@piece
def route_of_leaf(parsed, number, negated, rank, ranks, end):
    """Writes the route of a predicate, or of its negation; its length."""
    leaf = parsed.leaves[number]
    if leaf.operator == CONSTANT:
        operand = parsed.operands[leaf.first]
        return UNIVERSAL if operand.kind != UNKNOWN and (operand.whole != 0) != negated else 0
    if leaf.operator == ABSENCE and (leaf.negated != 0) == negated:
        return UNIVERSAL
    if leaf.operator < BETWEEN and parsed.operands[leaf.first].kind == UNKNOWN:
        return 0  # a comparison with null is never true, nor is its negation
    ranks[end] = rank[leaf.attribute]
    return 1 if ranks[end] >= 0 else UNIVERSAL


@piece
def joined(ranks, end, lengths, first, depth, is_and, frequency, marks):
    """Joins the routes lengths[first:depth], the last of which ends at `end`; the length of the new one, and where it ends."""
    start = end
    for route in range(first, depth):
        start -= max(lengths[route], 0)
    if not is_and:
        for route in range(first, depth):
            if lengths[route] == UNIVERSAL:
                return UNIVERSAL, start
        marks[len(marks) - 1] += 1
        length = unite(ranks, start, depth - first, lengths[first:depth], marks, marks[len(marks) - 1])
        return length, start + length
    best, best_length, place = start, UNIVERSAL, start
    for route in range(first, depth):
        length = lengths[route]
        if length == UNIVERSAL:
            continue
        if best_length == UNIVERSAL or is_cheaper(ranks, place, length, best, best_length, frequency):
            best, best_length = place, length
        place += length
    for place in range(max(best_length, 0)):
        ranks[start + place] = ranks[best + place]
    return best_length, start + max(best_length, 0)


@compiled
def routes_of_programs(parsed, read, attributes, longest):
    """Text t has the route ranks[offsets[t]:offsets[t] + lengths[t]], lengths[t] being UNIVERSAL if any event may match it; nothing for
    those that were not read. `longest`: the largest program."""
    texts = len(read)
    offsets, found = np.zeros(texts, np.int64), np.zeros(texts, np.int64)
    ranks = np.empty(parsed.leaf_offsets[texts] + 1, np.int32)
    frames, negated, lengths = (
        np.zeros(longest + 2, np.int64),
        np.zeros(longest + 2, np.int64),
        np.zeros(longest + 2, np.int64),
    )
    marks = np.zeros(len(attributes.rank) + 1, np.int64)
    end = 0
    for text in range(texts):
        start, stop = parsed.program_offsets[text], parsed.program_offsets[text + 1]
        offsets[text] = end
        if not read[text] or start == stop:
            continue
        mark_negated(parsed.program, start, stop, frames, negated)
        depth = 0
        for place in range(start, stop):
            item, odd = parsed.program[place], negated[place - start] != 0
            if item == NOT:
                continue
            if item >= 0:
                lengths[depth] = route_of_leaf(parsed, item, odd, attributes.rank, ranks, end)
                end += max(lengths[depth], 0)
                depth += 1
                continue
            first = depth - (-item >> 1)
            is_and = (item & 1 == 0) != odd
            lengths[first], end = joined(ranks, end, lengths, first, depth, is_and, attributes.frequency, marks)
            depth = first + 1
        found[text] = lengths[0]
    return offsets, found, ranks
