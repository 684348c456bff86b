"""The sets that no record can stand for as they are written: ranges of strings, absence, patterns, and whatever is combined with those.

Unions and intersections of many predicates are computed at once, by one sweep over their cuts (cuts.py). What comes out is records where
they can express it, else a set in columns (columns/opaque/opaque_sets.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.columns.opaque_sets import ESCAPE_SHIFT, NEGATED_PATTERN, REGEXP_PATTERN, TEXT_SHIFT
from ray_pubsub.kernels.compiled import compiled, piece
from ray_pubsub.kernels.texts.cuts import (
    ABOVE,
    ABSENCE,
    BEHIND,
    BELOW,
    HIGHEST,
    LEAD,
    LOWEST,
    Edge,
    complement,
    copy_cut,
    put_everything,
    put_interval,
    sweep,
)
from ray_pubsub.kernels.texts.layout import (
    BETWEEN,
    GREATER,
    GREATER_OR_EQUAL,
    LESS,
    LIKE,
    MEMBER,
    REGEXP,
    STRING,
    UNEQUAL,
    UNKNOWN,
)
from ray_pubsub.kernels.texts.normal_form import NODES
from ray_pubsub.kernels.texts.records import (
    ADMITS_ALL,
    ADMITS_NONE,
    CONTINUED_FLAG,
    EXCLUDED_FLAG,
    NOT_COMPUTED,
    PART,
    TESTED,
)
from ray_pubsub.kernels.texts.sets import AFTER, BEFORE, NO_SIDE, OPAQUE, PATTERNED, PLAIN, PREDICATE, UNION

__all__ = ["EQUALITY", "NO_SUCCESSOR", "StringOrder", "compute_sets", "used_strings"]

NO_SUCCESSOR, EQUALITY = -1, -2
"""In `prefix_end`: no string lies above all with the prefix; the pattern is no prefix but the whole string."""
OPAQUE_FORM = 1
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


@compiled
def used_strings(parsed, nodes, used, marks):
    """Marks, by string number, the constants of predicates that are used: 1 for one to be ordered, 2 for a `like` that is a prefix."""
    for place in range(len(used)):
        node = nodes[place]
        if used[place] == 0 or node.origin != PREDICATE or node.sort == PATTERNED:
            continue
        leaf = parsed.leaves[node.left]
        for constant in range(leaf.first, parsed.leaves[node.left + 1].first):
            operand = parsed.operands[constant]
            if operand.kind == STRING:
                marks[operand.whole] |= 2 if leaf.operator == LIKE else 1


@piece
def ordered(operand, order):
    return order.rank[operand.whole] if operand.kind == STRING else operand.whole


@piece
def put_point(cuts, at, operand, order):
    whole = ordered(operand, order)
    return put_interval(cuts, at, operand.kind, Edge(LEAD, whole, operand.rest), Edge(BEHIND, whole, operand.rest))


@piece
def put_below(cuts, at, operand, place, order):
    whole = ordered(operand, order)
    return put_interval(cuts, at, operand.kind, LOWEST, Edge(place, whole, operand.rest))


@piece
def put_above(cuts, at, operand, place, order):
    whole = ordered(operand, order)
    return put_interval(cuts, at, operand.kind, Edge(place, whole, operand.rest), HIGHEST)


@piece
def put_bounds(cuts, at, node, order):
    """The interval of a PLAIN node."""
    low, high = node.low_whole, node.high_whole
    if node.kind == STRING:
        low, high = order.rank[low], order.rank[high]
    low_place = BELOW if node.low_side == NO_SIDE else LEAD if node.low_side == BEFORE else BEHIND
    high_place = ABOVE if node.high_side == NO_SIDE else LEAD if node.high_side == BEFORE else BEHIND
    low_edge, high_edge = Edge(low_place, low, node.low_rest), Edge(high_place, high, node.high_rest)
    return put_interval(cuts, at, node.kind, low_edge, high_edge)


@piece
def put_compared(cuts, at, operator, operand, order):
    if operator == UNEQUAL:
        at = put_below(cuts, at, operand, LEAD, order)
        return put_above(cuts, at, operand, BEHIND, order)
    if operator == GREATER:
        return put_above(cuts, at, operand, BEHIND, order)
    if operator == GREATER_OR_EQUAL:
        return put_above(cuts, at, operand, LEAD, order)
    return put_below(cuts, at, operand, LEAD if operator == LESS else BEHIND, order)


@piece
def put_between(cuts, at, low, high, negated, order):
    """`x >= low and x <= high`; a null bound makes its half unknown, so only the other half's falsehood is certain."""
    if negated:
        if low.kind != UNKNOWN:
            at = put_below(cuts, at, low, LEAD, order)
        return put_above(cuts, at, high, BEHIND, order) if high.kind != UNKNOWN else at
    if low.kind == UNKNOWN or high.kind == UNKNOWN:
        return at
    first, last = ordered(low, order), ordered(high, order)
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
def put_predicate(parsed, node, order, cuts, at):
    """The cuts of a predicate or its negation; where they end, and in which order they are."""
    if node.sort == PLAIN:
        return put_bounds(cuts, at, node, order), IN_ORDER
    leaf = parsed.leaves[node.left]
    operands, first, operator = parsed.operands, leaf.first, leaf.operator
    negated = (leaf.negated != 0) != (node.right != 0)
    if operator < BETWEEN:
        return put_compared(cuts, at, operator ^ 1 if negated else operator, operands[first], order), IN_ORDER
    if operator == BETWEEN:
        return put_between(cuts, at, operands[first], operands[first + 1], negated, order), IN_ANY_ORDER
    if operator == MEMBER:
        for constant in range(first, parsed.leaves[node.left + 1].first):
            if operands[constant].kind != UNKNOWN:
                at = put_point(cuts, at, operands[constant], order)
        return at, EXCLUDED if negated else IN_ANY_ORDER
    if operator == LIKE:
        return put_prefixed(cuts, at, operands[first].whole, order), EXCLUDED if negated else IN_ORDER
    # `is null`
    if not negated:
        return put_everything(cuts, at, ABSENCE), IN_ORDER
    for kind in range(ABSENCE):
        at = put_everything(cuts, at, kind)
    return at, IN_ORDER


@piece
def pattern_key(leaves, operands, node, buffer):
    leaf = leaves[node.left]
    key = operands[leaf.first].whole << TEXT_SHIFT
    if leaf.operator == REGEXP:
        key |= REGEXP_PATTERN
    elif leaf.escaped:
        escape = operands[leaf.first + 1]
        if escape.stop > escape.start:  # one character of ASCII
            key |= (np.int64(buffer[escape.start]) + 1) << ESCAPE_SHIFT
    return key | NEGATED_PATTERN if (leaf.negated != 0) != (node.right != 0) else key


@piece
def admits_all(cuts, first, last):
    bounds = 0
    for place in range(first, last):
        bounds += cuts[place].place in (LEAD, BEHIND)
    return bounds == 0 and last - first == 2 * (ABSENCE + 1)


@piece
def is_point(low, high):
    return low.place == LEAD and high.place == BEHIND and low.whole == high.whole


@piece
def form_of(cuts, first, last):
    """How a set without patterns is written: 0 for a record per piece, EXCLUDED_FLAG for one per string it does not admit, else
    OPAQUE_FORM. Strings have numbers, not an order of numbers: of them only equality is a comparison of numbers."""
    pieces = cuts[first].kind != ABSENCE
    gaps = last - first >= 4 and cuts[first].place == BELOW and cuts[last - 1].place == ABOVE
    for place in range(first, last, 2):
        kind = cuts[place].kind
        pieces = pieces and kind != ABSENCE and (kind != STRING or is_point(cuts[place], cuts[place + 1]))
        gaps = gaps and kind == STRING
        if place > first:
            gaps = gaps and is_point(cuts[place - 1], cuts[place])
    return 0 if pieces else EXCLUDED_FLAG if gaps else OPAQUE_FORM


@piece
def put_record(record, attribute, form, low, high, order):
    record.attribute, record.form, record.kind = attribute, form, low.kind
    record.low_side = BEFORE if low.place == LEAD else AFTER if low.place == BEHIND else NO_SIDE
    record.high_side = BEFORE if high.place == LEAD else AFTER if high.place == BEHIND else NO_SIDE
    record.low_whole, record.low_rest, record.high_whole, record.high_rest = low.whole, low.rest, high.whole, high.rest
    if low.kind == STRING:
        if low.place in (LEAD, BEHIND):
            record.low_whole = order.number[low.whole]
        if high.place in (LEAD, BEHIND):
            record.high_whole = order.number[high.whole]


@compiled
def with_room(array, needed):
    """The array, or one with more room."""
    if needed <= len(array):
        return array
    larger = np.empty(max(needed, 2 * len(array)), array.dtype)
    for place in range(len(array)):  # as a slice, it takes a second to compile for each sort of array
        larger[place] = array[place]
    return larger


@piece
def sort_patterns(patterns, first, last):
    """Mostly they are few."""
    gap = 1
    while gap < (last - first) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for place in range(first + gap, last):
            pattern, free = patterns[place], place
            while free >= first + gap and patterns[free - gap] > pattern:
                patterns[free] = patterns[free - gap]
                free -= gap
            patterns[free] = pattern
        gap //= 3


@piece
def distinct_patterns(patterns, first, last):
    """Sorts them, each once; where they end. `first - 1` if one of them must match and must not."""
    sort_patterns(patterns, first, last)
    end = first
    for place in range(first, last):
        if end > first and patterns[place] == patterns[end - 1]:
            continue
        if end > first and patterns[place] ^ patterns[end - 1] == NEGATED_PATTERN:
            return first - 1
        patterns[end] = patterns[place]
        end += 1
    return end


@compiled
def compute_sets(parsed, work, used, attributes, order, runs, empty):
    """Of every node that a clause tests (`used_sets`): number[node], which is ADMITS_NONE, ADMITS_ALL or k, then the
    records[starts[k]:starts[k + 1]]. An opaque record has the number of one of the sets that come last: attributes, where their pieces
    begin, pieces, where their patterns begin, patterns. `attributes`: the numbers that attributes have in records. Without `runs`,
    whatever takes more than one record is one of the sets. `empty`: cuts and records, none."""
    nodes, count = work.nodes, work.state[NODES]
    leaves, operands, buffer = parsed.leaves, parsed.operands, parsed.buffer
    cuts, sweeping = np.empty(64, empty[0].dtype), np.empty(64, empty[0].dtype)
    places, scratch = np.empty(64, np.int64), np.empty(64, np.int64)
    stack = np.empty(count + 2, np.int64)
    # The cuts and patterns of every node that is used.
    kept, kept_patterns = np.empty(1024, empty[0].dtype), np.empty(64, np.int64)
    first, last = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    pattern_first, pattern_last = np.zeros(count, np.int64), np.zeros(count, np.int64)
    kept_end = patterns_end = 0
    number = np.full(count, NOT_COMPUTED, np.int64)
    starts, records = np.zeros(256, np.int64), np.empty(256, empty[1].dtype)
    found = written = 0
    set_attributes, piece_offsets, pieces = np.empty(64, np.int32), np.zeros(64, np.int64), np.empty(64, empty[1].dtype)
    pattern_offsets, patterns = np.zeros(64, np.int64), np.empty(64, np.int64)
    sets = piece_end = pattern_end = 0
    for place in range(count):
        if used[place] < PART:
            continue
        end = parts = 0
        pattern_first[place] = patterns_end
        depth = 1
        stack[0] = place
        while depth > 0:
            depth -= 1
            part = stack[depth]
            node = nodes[part]
            if first[part] >= 0:
                size = last[part] - first[part]
                cuts = with_room(cuts, end + size)
                for cut in range(size):
                    copy_cut(cuts[end + cut], kept[first[part] + cut])
                end += size
                size = pattern_last[part] - pattern_first[part]
                kept_patterns = with_room(kept_patterns, patterns_end + size)
                for pattern in range(size):
                    kept_patterns[patterns_end + pattern] = kept_patterns[pattern_first[part] + pattern]
                patterns_end += size
            elif node.sort == PATTERNED and node.origin == PREDICATE:  # there are more of these than of all others
                cuts = with_room(cuts, end + MOST_PLAIN_CUTS)
                end = put_everything(cuts, np.int64(end), STRING)
                kept_patterns = with_room(kept_patterns, patterns_end + 1)
                kept_patterns[patterns_end] = pattern_key(leaves, operands, node, buffer)
                patterns_end += 1
            elif node.sort == PLAIN or node.origin == PREDICATE:
                constants = 0
                if node.origin == PREDICATE:
                    constants = parsed.leaves[node.left + 1].first - parsed.leaves[node.left].first
                cuts = with_room(cuts, end + 2 * constants + MOST_PLAIN_CUTS)
                begin = np.int64(end)
                end, how = put_predicate(parsed, node, order, cuts, begin)
                if how != IN_ORDER:
                    size = end - begin
                    sweeping, places = with_room(sweeping, size + 2), with_room(places, size)
                    scratch = with_room(scratch, size)
                    size = sweep(cuts, begin, end, 1, places, scratch, sweeping, 0)
                    if how == EXCLUDED:
                        size = complement(sweeping, 0, size, node.kind)
                    for cut in range(size):
                        copy_cut(cuts[begin + cut], sweeping[cut])
                    end = begin + size
            else:
                stack[depth], stack[depth + 1] = node.right, node.left
                depth += 2
                continue
            parts += 1
        node = nodes[place]
        kept = with_room(kept, kept_end + end + 2)
        first[place] = kept_end
        if node.sort == PATTERNED and node.origin == PREDICATE:  # in order as it is
            copy_cut(kept[kept_end], cuts[0])
            copy_cut(kept[kept_end + 1], cuts[1])
            kept_end = last[place] = kept_end + 2
        else:
            places, scratch = with_room(places, end), with_room(scratch, end)
            needed = 1 if node.origin == UNION else parts
            kept_end = last[place] = sweep(cuts, 0, end, needed, places, scratch, kept, kept_end)
        if patterns_end > pattern_first[place]:
            patterns_end = distinct_patterns(kept_patterns, pattern_first[place], patterns_end)
            if patterns_end < pattern_first[place]:  # nothing can match
                patterns_end = pattern_first[place]
                kept_end = last[place] = first[place]
        pattern_last[place] = patterns_end
        if used[place] != TESTED:
            continue
        begin, end = first[place], last[place]
        patterned = pattern_last[place] - pattern_first[place]
        if begin == end:
            number[place] = ADMITS_NONE
            continue
        if patterned == 0 and admits_all(kept, begin, end):
            number[place] = ADMITS_ALL
            continue
        number[place] = found
        attribute = attributes[node.attribute]
        records = with_room(records, written + (end - begin) // 2 + 1)
        starts = with_room(starts, found + 2)
        form = OPAQUE_FORM if patterned or node.sort < OPAQUE else form_of(kept, begin, end)
        if not runs and (form != 0 or end - begin > 2):
            form = OPAQUE_FORM
        if form == OPAQUE_FORM:
            set_attributes, piece_offsets = with_room(set_attributes, sets + 1), with_room(piece_offsets, sets + 2)
            pattern_offsets = with_room(pattern_offsets, sets + 2)
            pieces = with_room(pieces, piece_end + (end - begin) // 2)
            patterns = with_room(patterns, pattern_end + patterned)
            for cut in range(begin, end, 2):
                put_record(pieces[piece_end], 0, 0, kept[cut], kept[cut + 1], order)
                piece_end += 1
            for pattern in range(pattern_first[place], pattern_last[place]):
                patterns[pattern_end] = kept_patterns[pattern]
                pattern_end += 1
            record = records[written]
            record.attribute, record.form, record.kind, record.low_side, record.high_side = (
                attribute,
                OPAQUE_FORM,
                0,
                0,
                0,
            )
            record.low_whole, record.low_rest, record.high_whole, record.high_rest = sets, 0.0, 0, 0.0
            written += 1
            set_attributes[sets] = attribute
            sets += 1
            piece_offsets[sets], pattern_offsets[sets] = piece_end, pattern_end
        elif form == EXCLUDED_FLAG:
            for cut in range(begin + 1, end - 1, 2):  # what lies between two pieces
                put_record(records[written], attribute, form, kept[cut], kept[cut + 1], order)
                form |= CONTINUED_FLAG
                written += 1
        else:
            for cut in range(begin, end, 2):
                put_record(records[written], attribute, form, kept[cut], kept[cut + 1], order)
                form |= CONTINUED_FLAG
                written += 1
        found += 1
        starts[found] = written
    return (
        number, starts[: found + 1], records[:written],
        set_attributes[:sets], piece_offsets[: sets + 1], pieces[:piece_end], pattern_offsets[: sets + 1], patterns[:pattern_end],
    )  # fmt: skip
