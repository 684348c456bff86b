"""OpIndex's predicate lists (sections 4.1 to 5): clauses by pivot, their predicates by operator, counters per clause.

Within the lists of a pivot, predicates are grouped by segment (attribute modulo b, as in Example 4) and by operator; a group is sorted by
attribute and operand, that is, by one key, since the codes of all columns are numbered through. Groups of one pivot and segment are
neighbours: an event's value finds the three signatures it may need in one cache line.

    group = (partition * b + column % b) * 3 + operator
    signatures[group]                                   bit h(column, operand) for =, bit h(column) for <= and >=
    keys, targets [group_offsets[group]:…]              the predicates: base[column] + operand, and the clause to count for
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.compiled import compiled, inlined
from ray_pubsub.kernels.intrinsics import prefetch

__all__ = [
    "AT_LEAST", "AT_MOST", "EQUAL", "OPERATORS", "ListIndex", "Lists", "Partitions", "Pieces", "Scratch", "Written", "choose_pivots",
    "first_not_below", "match_lists", "rewrite_tests", "sign_groups", "signature_bit", "track_of",
]  # fmt: skip

EQUAL, AT_MOST, AT_LEAST = 0, 1, 2
OPERATORS = 3
ONE, ZERO = np.uint64(1), np.uint64(0)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Pieces(NamedTuple):
    """A test that is a union of intervals has those of number k = of_test[test]: low/high[offsets[k]:offsets[k + 1]]. Other tests have -1,
    and `of_test` is empty if there is no union at all."""

    of_test: Any
    offsets: Any
    low: Any
    high: Any


class Written(NamedTuple):
    """Predicates: the test each comes from, its operator and its operand."""

    test: Any
    operator: Any
    operand: Any


class Partitions(NamedTuple):
    """of_column[c]: the partition of pivot c, or -1. Partition p is of the clauses order[starts[p]:starts[p + 1]]; the last is of those
    without a pivot. Per position in that order: initial, the predicates that must hold; optional, whether some test admits absence."""

    of_column: Any
    starts: Any
    order: Any
    initial: Any
    optional: Any


class Lists(NamedTuple):
    """The groups of predicates, as above; `segments` and `bits` are the paper's b and w."""

    signatures: Any
    offsets: Any
    keys: Any
    targets: Any
    segments: Any
    bits: Any


class ListIndex(NamedTuple):
    """OpIndex's whole index. Codes of column c are numbered from base[c]; tracks[c] has the first code of each kind."""

    base: Any
    tracks: Any
    partitions: Any
    lists: Any


class Scratch(NamedTuple):
    """`values`, per column, is zero between calls; `counters` are per clause. Per value of the event: `where`, its keys and its partition;
    `masks`, its signature bits; and `hits`, the values that a partition's signatures leave."""

    values: Any
    counters: Any
    where: Any
    masks: Any
    hits: Any


@inlined
def track_of(tracks, column, code):
    """Returns which run of codes, that is, which kind of values, a code is of."""
    track = 0
    while track < tracks.shape[1] - 2 and code >= tracks[column, track + 1]:
        track += 1
    return track


@inlined
def signature_bit(number, bits):
    """The bit of a key or a column in a signature of `bits` bits."""
    return ONE << (((np.uint64(number) * GOLDEN) >> np.uint64(32)) % np.uint64(bits))


@inlined
def first_not_below(keys, first, last, key):
    while first < last:
        middle = (first + last) >> 1
        if keys[middle] < key:
            first = middle + 1
        else:
            last = middle
    return first


@compiled
def _rewrite(low, high, column, tracks, writing, written, at):
    """One interval as predicates (section 4.2); returns how many are written and how many hold at once when the interval does.

    An interval over several kinds is one predicate in each: an event's value is of one kind, so one of them holds."""
    operator, operand = written.operator, written.operand
    first, last = track_of(tracks, column, low), track_of(tracks, column, high)
    begins, ends = low == tracks[column, first], high == tracks[column, last + 1] - 1
    if low == high:
        if writing:
            operator[at], operand[at] = EQUAL, low
        return 1, 1
    if first != last:
        if writing:
            for track in range(first, last):
                operator[at + track - first], operand[at + track - first] = AT_LEAST, max(low, tracks[column, track])
            operator[at + last - first], operand[at + last - first] = AT_MOST, high
        return last - first + 1, 1
    if begins and not ends:
        if writing:
            operator[at], operand[at] = AT_MOST, high
        return 1, 1
    if writing:
        operator[at], operand[at] = AT_LEAST, low
        if not ends:
            operator[at + 1], operand[at + 1] = AT_MOST, high
    return (1, 1) if ends else (2, 2)


@compiled
def rewrite_tests(tests, pieces, tracks, writing, need, written):
    """Every test as predicates; returns how many there are. need[test]: how many of its predicates hold when the test does, 0 for a test
    that admits absence, which no predicate can show. An empty test needs one and has none.

    A set is its members, of which one holds; so is any union whose intervals are one predicate each. Of other unions the hull is taken."""
    filled = 0
    for test in range(len(tests.column)):
        column, low, high = tests.column[test], tests.low[test], tests.high[test]
        if low == 0 or low > high:
            need[test] = low > 0
            continue
        start = filled
        needed = 2
        if len(pieces.of_test) and pieces.of_test[test] >= 0:
            run = pieces.of_test[test]
            first, last = pieces.offsets[run], pieces.offsets[run + 1]
            needed = 1
            for piece in range(first, last):
                _, holding = _rewrite(pieces.low[piece], pieces.high[piece], column, tracks, False, written, filled)
                needed = max(needed, holding)
            if needed == 1:
                for piece in range(first, last):
                    added, _ = _rewrite(pieces.low[piece], pieces.high[piece], column, tracks, writing, written, filled)
                    filled += added
        if needed == 2:
            added, needed = _rewrite(low, high, column, tracks, writing, written, filled)
            filled += added
        need[test] = needed
        if writing:
            written.test[start:filled] = test
    return filled


@compiled
def choose_pivots(tests, frequency, need, pivots, counters, optional):
    """Formula 1: the least frequent of the columns that must be present, the first written among equals; the number behind the columns for
    a clause that needs none. counters[clause]: predicates that must hold; optional[clause]: some test admits absence."""
    columns = len(frequency)
    for clause in range(len(tests.offsets) - 1):
        pivot = columns
        total = 0
        for test in range(tests.offsets[clause], tests.offsets[clause + 1]):
            total += need[test]
            if tests.low[test] == 0:
                optional[clause] = True
            elif pivot == columns or frequency[tests.column[test]] < frequency[pivot]:
                pivot = tests.column[test]
        pivots[clause] = pivot
        counters[clause] = total


@compiled
def sign_groups(lists, columns):
    """Section 4.2's signatures. columns[place]: the column of each predicate."""
    for group in range(len(lists.signatures)):
        for place in range(lists.offsets[group], lists.offsets[group + 1]):
            if group % OPERATORS == EQUAL:
                lists.signatures[group] |= signature_bit(lists.keys[place], lists.bits)
            else:
                lists.signatures[group] |= signature_bit(columns[place], lists.bits)


@inlined
def _holds(clause, values, tests):
    holds = True
    for test in range(tests.offsets[clause], tests.offsets[clause + 1]):
        code = values[tests.column[test]]
        holds &= (code >= tests.low[test]) & (code <= tests.high[test])
    return holds


@inlined
def _scan(first_key, last_key, group, lists, counters, found, count):
    """Counts down for the predicates of a group within a range of keys; writes the clauses that have none left."""
    keys, targets = lists.keys, lists.targets
    end = np.int64(lists.offsets[group + 1])
    place = first_not_below(keys, np.int64(lists.offsets[group]), end, first_key)
    while place < end and keys[place] <= last_key:
        target = targets[place]
        counters[target] -= 1
        found[count] = target
        count += counters[target] == 0
        place += 1
    return count


@inlined
def _ask_for(first, last, events, index, where, masks):
    """Writes what each attribute of an event asks of the lists: its group and partition, the keys of its code and of the ends of its
    track, and its bits in signatures. Returns how many attributes there are, and how many clauses their partitions have."""
    base, tracks, partitions, lists = index
    visited, clauses = 0, 0
    for cell in range(first, last):
        column, code = events.column[cell], events.code[cell]
        if code == 0:
            continue
        partition = partitions.of_column[column]
        if partition >= 0:
            clauses += partitions.starts[partition + 1] - partitions.starts[partition]
        track = track_of(tracks, column, code)
        where[visited, 0] = (column % lists.segments) * OPERATORS
        where[visited, 1] = base[column] + code
        where[visited, 2] = base[column] + tracks[column, track]
        where[visited, 3] = base[column] + tracks[column, track + 1] - 1
        where[visited, 4] = partition
        masks[visited, 0] = signature_bit(where[visited, 1], lists.bits)
        masks[visited, 1] = signature_bit(column, lists.bits)
        visited += 1
    return visited, clauses


@compiled
def match_lists(index, tests, events, first_event, scratch, out_offsets, out):
    """Algorithm 2. Numbers of the matching clauses, event by event from `first_event` on; returns the first event that may no longer fit
    `out`, and the room it needs. Counters are set when their partition is first visited, not all for each event."""
    partitions, lists = index.partitions, index.lists
    values, counters, where, masks, hits = scratch
    signatures, segments = lists.signatures, lists.segments
    last_event, pivots = len(events.offsets) - 1, len(partitions.starts) - 2
    universal, count = partitions.starts[pivots], partitions.starts[pivots + 1]
    for event in range(first_event, last_event):
        first, last = events.offsets[event], events.offsets[event + 1]
        filled = start = out_offsets[event]
        visited, needed = _ask_for(first, last, events, index, where, masks)
        needed += count - universal + 1
        if filled + needed > len(out):
            return event, needed
        for cell in range(first, last):
            values[events.column[cell]] = events.code[cell]
        for pivot in range(visited):
            partition = where[pivot, 4]
            if partition < 0:
                continue
            for clause in range(partitions.starts[partition], partitions.starts[partition + 1]):
                counters[clause] = partitions.initial[clause]
            # Signatures first, then the directory, then the lists: each asks memory for what the next will read.
            here = partition * segments * OPERATORS
            ahead = max(partition, where[min(pivot + 1, visited - 1), 4]) * segments * OPERATORS
            searched = 0
            for pair in range(visited):
                group = here + where[pair, 0]
                prefetch(signatures, ahead + where[pair, 0])
                ranged = (signatures[group + AT_MOST] | signatures[group + AT_LEAST]) & masks[pair, 1]
                if (signatures[group] & masks[pair, 0]) | ranged:
                    prefetch(lists.offsets, group)
                    hits[searched] = pair
                    searched += 1
            for hit in range(searched):
                place = np.int64(lists.offsets[here + where[hits[hit], 0]])
                prefetch(lists.keys, place)
                prefetch(lists.targets, place)
            for hit in range(searched):
                pair = hits[hit]
                group = here + where[pair, 0]
                key = where[pair, 1]
                if signatures[group] & masks[pair, 0]:
                    filled = _scan(key, key, group, lists, counters, out, filled)
                if signatures[group + AT_MOST] & masks[pair, 1]:
                    filled = _scan(key, where[pair, 3], group + AT_MOST, lists, counters, out, filled)
                if signatures[group + AT_LEAST] & masks[pair, 1]:
                    filled = _scan(where[pair, 2], key, group + AT_LEAST, lists, counters, out, filled)
        found, filled = filled, start
        for place in range(start, found):
            position = out[place]
            clause = partitions.order[position]
            out[filled] = clause
            filled += (not partitions.optional[position]) or _holds(clause, values, tests)
        for position in range(universal, count):
            out[filled] = partitions.order[position]
            filled += _holds(partitions.order[position], values, tests)
        for cell in range(first, last):
            values[events.column[cell]] = 0
        out_offsets[event + 1] = filled
    return last_event, 0
