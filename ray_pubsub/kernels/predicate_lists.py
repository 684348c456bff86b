"""OpIndex's predicate lists (sections 4.1 to 5): clauses by pivot, their predicates by operator, counters per clause.

Within the lists of a pivot, predicates are grouped by segment (attribute modulo b, as in Example 4) and by operator; a group is sorted by
attribute and operand, that is, by one key, since the codes of all columns are numbered through. Groups of one pivot and segment are
neighbours: an event's value finds the three signatures it may need in one cache line.

    group = (partition * b + column % b) * 3 + operator
    signatures[group]                                   bit h(column, operand) for =, bit h(column) for <= and >=
    keys, targets [group_offsets[group]:…]              the predicates: base[column] + operand, and the clause to count for
"""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled, inlined
from ray_pubsub.kernels.intrinsics import prefetch

__all__ = [
    "AT_LEAST", "AT_MOST", "EQUAL", "OPERATORS", "choose_pivots", "equality_bit", "first_not_below", "match_lists", "range_bit",
    "rewrite_tests", "sign_groups", "track_of",
]  # fmt: skip

EQUAL, AT_MOST, AT_LEAST = 0, 1, 2
OPERATORS = 3
ONE, ZERO = np.uint64(1), np.uint64(0)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@inlined
def track_of(tracks, column, code):
    """Which run of codes, that is, which kind of values, a code is of."""
    track = 0
    while track < 3 and code >= tracks[column, track + 1]:
        track += 1
    return track


@inlined
def _bit(number, bits):
    return ONE << (((np.uint64(number) * GOLDEN) >> np.uint64(32)) % np.uint64(bits))


@inlined
def equality_bit(key, bits):
    return _bit(key, bits)


@inlined
def range_bit(column, bits):
    return _bit(column, bits)


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
def _rewrite(low, high, column, tracks, writing, operator, operand, at):
    """One interval as predicates (section 4.2); returns how many are written and how many hold at once when the interval does.

    An interval over several kinds is one predicate in each: an event's value is of one kind, so one of them holds."""
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
def rewrite_tests(
    column, low, high, pieces, piece_offsets, piece_low, piece_high, tracks, writing, need, test_of, operator, operand
):
    """Every test as predicates; returns how many there are. need[test]: how many of its predicates hold when the test does, 0 for a test
    that admits absence, which no predicate can show. An empty test needs one and has none.

    A set is its members, of which one holds; so is any union whose intervals are one predicate each. Of other unions the hull is taken."""
    filled = 0
    for test in range(len(column)):
        if low[test] == 0 or low[test] > high[test]:
            need[test] = low[test] > 0
            continue
        start = filled
        needed = 2
        if len(pieces) and pieces[test] >= 0:
            first, last = piece_offsets[pieces[test]], piece_offsets[pieces[test] + 1]
            needed = 1
            for piece in range(first, last):
                _, holding = _rewrite(
                    piece_low[piece], piece_high[piece], column[test], tracks, False, operator, operand, filled
                )
                needed = max(needed, holding)
            if needed == 1:
                for piece in range(first, last):
                    written, _ = _rewrite(
                        piece_low[piece], piece_high[piece], column[test], tracks, writing, operator, operand, filled
                    )
                    filled += written
        if needed == 2:
            written, needed = _rewrite(low[test], high[test], column[test], tracks, writing, operator, operand, filled)
            filled += written
        need[test] = needed
        if writing:
            for place in range(start, filled):
                test_of[place] = test
    return filled


@compiled
def choose_pivots(offsets, column, low, frequency, need, pivots, counters, optional):
    """Formula 1: the least frequent of the columns that must be present, the first written among equals; the number behind the columns for
    a clause that needs none. counters[clause]: predicates that must hold; optional[clause]: some test admits absence."""
    columns = len(frequency)
    for clause in range(len(offsets) - 1):
        pivot = columns
        total = 0
        for test in range(offsets[clause], offsets[clause + 1]):
            total += need[test]
            if low[test] == 0:
                optional[clause] = True
            elif pivot == columns or frequency[column[test]] < frequency[pivot]:
                pivot = column[test]
        pivots[clause] = pivot
        counters[clause] = total


@compiled
def sign_groups(group_offsets, keys, columns, bits, operators, signatures):
    """Section 4.2's signatures. columns[place]: the column of each predicate."""
    for group in range(len(signatures)):
        for place in range(group_offsets[group], group_offsets[group + 1]):
            if group % operators == EQUAL:
                signatures[group] |= equality_bit(keys[place], bits)
            else:
                signatures[group] |= range_bit(columns[place], bits)


@inlined
def _holds(clause, values, test_offsets, test_column, test_low, test_high):
    holds = True
    for test in range(test_offsets[clause], test_offsets[clause + 1]):
        code = values[test_column[test]]
        holds &= (code >= test_low[test]) & (code <= test_high[test])
    return holds


@inlined
def _scan(first_key, last_key, group, group_offsets, keys, targets, counters, found, count):
    """Counts down for the predicates of a group within a range of keys; writes the clauses that have none left."""
    end = np.int64(group_offsets[group + 1])
    place = first_not_below(keys, np.int64(group_offsets[group]), end, first_key)
    while place < end and keys[place] <= last_key:
        target = targets[place]
        counters[target] -= 1
        found[count] = target
        count += counters[target] == 0
        place += 1
    return count


@compiled
def match_lists(
    first_event, event_offsets, event_column, event_code, base, tracks, partition_of, partition_starts, segments, bits,
    signatures, group_offsets, keys, targets, initial, optional, order,
    test_offsets, test_column, test_low, test_high, values, counters, where, masks, hits, out_offsets, out,
):  # fmt: skip
    """Algorithm 2. Numbers of the matching clauses, event by event from `first_event` on; returns the first event that may no longer fit
    `out`, and the room it needs. Counters are set when their partition is first visited, not all for each event.

    `values` is zero and is left so; `where` and `masks` hold what depends on the event's value alone: its keys and its signature bits."""
    events, partitions = len(event_offsets) - 1, len(partition_starts) - 2
    universal, count = partition_starts[partitions], partition_starts[partitions + 1]
    for event in range(first_event, events):
        first, last = event_offsets[event], event_offsets[event + 1]
        filled = start = out_offsets[event]
        needed = count - universal + 1
        visited = 0
        for cell in range(first, last):
            column, code = event_column[cell], event_code[cell]
            if code == 0:
                continue
            partition = partition_of[column]
            if partition >= 0:
                needed += partition_starts[partition + 1] - partition_starts[partition]
            track = track_of(tracks, column, code)
            where[visited, 0] = (column % segments) * OPERATORS
            where[visited, 1] = base[column] + code
            where[visited, 2] = base[column] + tracks[column, track]
            where[visited, 3] = base[column] + tracks[column, track + 1] - 1
            where[visited, 4] = partition
            masks[visited, 0] = equality_bit(where[visited, 1], bits)
            masks[visited, 1] = range_bit(column, bits)
            visited += 1
        if filled + needed > len(out):
            return event, needed
        for cell in range(first, last):
            values[event_column[cell]] = event_code[cell]
        for pivot in range(visited):
            partition = where[pivot, 4]
            if partition < 0:
                continue
            for clause in range(partition_starts[partition], partition_starts[partition + 1]):
                counters[clause] = initial[clause]
            # Signatures first, then the directory, then the lists: each asks memory for what the next will read.
            here = partition * segments * OPERATORS
            ahead = max(partition, where[min(pivot + 1, visited - 1), 4]) * segments * OPERATORS
            searched = 0
            for pair in range(visited):
                group = here + where[pair, 0]
                prefetch(signatures, ahead + where[pair, 0])
                ranged = (signatures[group + AT_MOST] | signatures[group + AT_LEAST]) & masks[pair, 1]
                if (signatures[group] & masks[pair, 0]) | ranged:
                    prefetch(group_offsets, group)
                    hits[searched] = pair
                    searched += 1
            for hit in range(searched):
                place = np.int64(group_offsets[here + where[hits[hit], 0]])
                prefetch(keys, place)
                prefetch(targets, place)
            for hit in range(searched):
                pair = hits[hit]
                group = here + where[pair, 0]
                key = where[pair, 1]
                if signatures[group] & masks[pair, 0]:
                    filled = _scan(key, key, group, group_offsets, keys, targets, counters, out, filled)
                if signatures[group + AT_MOST] & masks[pair, 1]:
                    filled = _scan(
                        key, where[pair, 3], group + AT_MOST, group_offsets, keys, targets, counters, out, filled
                    )
                if signatures[group + AT_LEAST] & masks[pair, 1]:
                    filled = _scan(
                        where[pair, 2], key, group + AT_LEAST, group_offsets, keys, targets, counters, out, filled
                    )
        found, filled = filled, start
        for place in range(start, found):
            position = out[place]
            clause = order[position]
            out[filled] = clause
            filled += (not optional[position]) or _holds(clause, values, test_offsets, test_column, test_low, test_high)
        for position in range(universal, count):
            out[filled] = order[position]
            filled += _holds(order[position], values, test_offsets, test_column, test_low, test_high)
        for cell in range(first, last):
            values[event_column[cell]] = 0
        out_offsets[event + 1] = filled
    return events, 0
