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
    CUT,
    LEAD,
    complement,
    copy_cut,
    put_everything,
    sweep,
)
from ray_pubsub.kernels.texts.layout import (
    LIKE,
    REGEXP,
    STRING,
)
from ray_pubsub.kernels.texts.normal_form import NODES
from ray_pubsub.kernels.texts.predicate_cuts import EXCLUDED, IN_ANY_ORDER, MOST_PLAIN_CUTS, put_predicate
from ray_pubsub.kernels.texts.records import (
    ADMITS_ALL,
    ADMITS_NONE,
    CONTINUED_FLAG,
    EXCLUDED_FLAG,
    NOT_COMPUTED,
    PART,
    TESTED,
)
from ray_pubsub.kernels.texts.sets import (
    AFTER,
    BEFORE,
    INTERSECTION,
    NO_SIDE,
    OPAQUE,
    PATTERNED,
    PLAIN,
    PREDICATE,
    UNION,
)

__all__ = ["NodePlaces", "SetRoom", "compute_sets", "used_strings"]

OPAQUE_FORM = 1


class NodePlaces(NamedTuple):
    """By node: the number of its set, where its cuts are and where its patterns are. numpy allocates what is as long as the nodes, in large
    pages: in the kernel, the page faults took as long as the work."""

    number: Any
    first: Any
    last: Any
    pattern_first: Any
    pattern_last: Any
    kept: Any
    """The cuts of every node that is used; none at first."""

    @classmethod
    def of(cls, nodes: int) -> NodePlaces:
        first, last, pattern_first, pattern_last = (np.empty(nodes, np.int32) for _ in range(4))
        return cls(np.empty(nodes, np.int64), first, last, pattern_first, pattern_last, np.empty(1024, CUT))


class SetRoom(NamedTuple):
    """Room for what is written: records, and the sets that are not records."""

    starts: Any
    records: Any
    attributes: Any
    piece_offsets: Any
    pieces: Any
    pattern_offsets: Any
    patterns: Any

    @classmethod
    def of(cls, tested: int, sets: int, record: np.dtype[Any]) -> SetRoom:
        """`tested`: nodes; `sets`: those of one pattern alone, which take one piece and one pattern. More room is made for others."""
        return cls(
            np.empty(tested + 1, np.int64), np.empty(tested, record), np.empty(sets, np.int32), np.empty(sets + 1, np.int64),
            np.empty(sets, record), np.empty(sets + 1, np.int64), np.empty(sets, np.int64),
        )  # fmt: skip


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


@piece
def put_all_strings(record):
    record.attribute, record.form, record.kind = 0, 0, STRING
    record.low_side, record.high_side = NO_SIDE, NO_SIDE
    record.low_whole, record.low_rest, record.high_whole, record.high_rest = 0, 0.0, 0, 0.0


@piece
def put_set_number(record, attribute, number):
    """The record of a test that is one of the sets."""
    record.attribute, record.form, record.kind, record.low_side, record.high_side = attribute, OPAQUE_FORM, 0, 0, 0
    record.low_whole, record.low_rest, record.high_whole, record.high_rest = number, 0.0, 0, 0.0


@piece
def is_pattern(node):
    return node.sort == PATTERNED and node.origin == PREDICATE


@compiled
def with_room(array, needed):
    """The array, or one with more room. A call takes a tenth of a microsecond for references, so hot loops ask first."""
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
def compute_sets(parsed, work, used, attributes, order, runs, places_of, room):
    """Of every node that a clause tests (`used_sets`): number[node], which is ADMITS_NONE, ADMITS_ALL or k, then the
    records[starts[k]:starts[k + 1]]. An opaque record has the number of one of the sets that come last: attributes, where their pieces
    begin, pieces, where their patterns begin, patterns. `attributes`: the numbers that attributes have in records. Without `runs`,
    whatever takes more than one record is one of the sets."""
    nodes, count = work.nodes, work.state[NODES]
    leaves, operands, buffer = parsed.leaves, parsed.operands, parsed.buffer
    number, first, last, pattern_first, pattern_last, kept = places_of
    starts, records, set_attributes, piece_offsets, pieces, pattern_offsets, patterns = room
    number[:] = NOT_COMPUTED
    first[:] = -1
    starts[0] = piece_offsets[0] = pattern_offsets[0] = 0
    cuts, sweeping = np.empty(64, kept.dtype), np.empty(64, kept.dtype)
    places, scratch = np.empty(64, np.int64), np.empty(64, np.int64)
    stack = np.empty(count + 2, np.int64)
    kept_patterns = np.empty(64, np.int64)
    kept_end = patterns_end = 0
    found = written = 0
    sets = piece_end = pattern_end = 0
    for place in range(count):
        if used[place] < PART:
            continue
        if is_pattern(
            nodes[place]
        ):  # there are more of these than of all others: part of another set, they are made again
            if used[place] == TESTED:
                number[place] = found
                if sets == len(set_attributes) or sets + 1 == len(piece_offsets):
                    set_attributes, piece_offsets = (
                        with_room(set_attributes, sets + 1),
                        with_room(piece_offsets, sets + 2),
                    )
                    pattern_offsets = with_room(pattern_offsets, sets + 2)
                if piece_end == len(pieces) or pattern_end == len(patterns):
                    pieces, patterns = with_room(pieces, piece_end + 1), with_room(patterns, pattern_end + 1)
                if written == len(records):
                    records = with_room(records, written + 1)
                put_all_strings(pieces[piece_end])
                patterns[pattern_end] = pattern_key(leaves, operands, nodes[place], buffer)
                set_attributes[sets] = attributes[nodes[place].attribute]
                put_set_number(records[written], set_attributes[sets], sets)
                piece_end, pattern_end, sets, written, found = (
                    piece_end + 1,
                    pattern_end + 1,
                    sets + 1,
                    written + 1,
                    found + 1,
                )
                piece_offsets[sets], pattern_offsets[sets], starts[found] = piece_end, pattern_end, written
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
                if end + size > len(cuts):
                    cuts = with_room(cuts, end + size)
                for cut in range(size):
                    copy_cut(cuts[end + cut], kept[first[part] + cut])
                end += size
                size = pattern_last[part] - pattern_first[part]
                if patterns_end + size > len(kept_patterns):
                    kept_patterns = with_room(kept_patterns, patterns_end + size)
                for pattern in range(size):
                    kept_patterns[patterns_end + pattern] = kept_patterns[pattern_first[part] + pattern]
                patterns_end += size
            elif is_pattern(node):
                if end + MOST_PLAIN_CUTS > len(cuts):
                    cuts = with_room(cuts, end + MOST_PLAIN_CUTS)
                end = put_everything(cuts, np.int64(end), STRING)
                if patterns_end == len(kept_patterns):
                    kept_patterns = with_room(kept_patterns, patterns_end + 1)
                kept_patterns[patterns_end] = pattern_key(leaves, operands, node, buffer)
                patterns_end += 1
            elif node.sort == PLAIN or node.origin == PREDICATE:
                constants = 0
                if node.origin == PREDICATE:
                    constants = leaves[node.left + 1].first - leaves[node.left].first
                if end + 2 * constants + MOST_PLAIN_CUTS > len(cuts):
                    cuts = with_room(cuts, end + 2 * constants + MOST_PLAIN_CUTS)
                begin = np.int64(end)
                end, how = put_predicate(leaves, operands, node, order, cuts, begin)
                if how == EXCLUDED or (
                    how == IN_ANY_ORDER and nodes[place].origin == INTERSECTION
                ):  # a value twice would count twice
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
            put_set_number(records[written], attribute, sets)
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
