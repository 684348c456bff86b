"""OpIndex for conjunctions of disjunctions (section 6.1): several pivots per subscription, a bitmap of the disjunctions not yet satisfied.

A subscription has an entry in the partition of each of its pivots, and each entry has its own bits: whole words, bit i of them set while
disjunction i is open. Predicates are grouped as in kernels/predicate_lists.py, with intervals as a fourth operator: two predicates that
must both hold cannot share the one bit of their disjunction, so an interval is one predicate, found by its low and compared with its high.
"""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled, inlined
from ray_pubsub.kernels.predicate_lists import equality_bit, first_not_below, range_bit

__all__ = ["AT_LEAST", "AT_MOST", "BETWEEN", "EQUAL", "OPERATORS", "match_disjunctions"]

EQUAL, AT_MOST, AT_LEAST, BETWEEN = 0, 1, 2, 3
OPERATORS = 4
ONE, ZERO = np.uint64(1), np.uint64(0)


@inlined
def _close(first_key, last_key, key, group, group_offsets, keys, last_keys, targets, bitmap):
    """Clears the bits of the predicates of a group within a range of keys that admit `key`."""
    end = np.int64(group_offsets[group + 1])
    place = first_not_below(keys, np.int64(group_offsets[group]), end, first_key)
    while place < end and keys[place] <= last_key:
        if key <= last_keys[place]:
            bitmap[targets[place] >> 6] &= ~(ONE << np.uint64(targets[place] & 63))
        place += 1


@compiled
def _every_disjunction_holds(subscription, values, disjunctions, members, column, low, high):
    for disjunction in range(disjunctions[subscription], disjunctions[subscription + 1]):
        some = False
        for member in range(members[disjunction], members[disjunction + 1]):
            code = values[column[member]]
            some |= (code >= low[member]) & (code <= high[member])
        if not some:
            return False
    return True


@compiled
def match_disjunctions(
    first_event, event_offsets, event_column, event_code, base, partition_of, partition_entries, entry_words, subscription_of,
    segments, bits, signatures, group_offsets, keys, last_keys, targets, initial, is_checked,
    disjunctions, members, member_column, member_low, member_high,
    values, bitmap, seen, epoch, out_offsets, out,
):  # fmt: skip
    """Numbers of the matching subscriptions, each once, event by event from `first_event` on; returns the first event that may no longer
    fit `out`. base[column]:base[column + 1] are the keys of a column's codes.

    `values` is zero and is left so; seen[subscription] is the last event that met it, as epoch + event. The entries of the last partition
    are visited by every event and compared directly: their subscriptions can match without any one attribute."""
    events, partitions = len(event_offsets) - 1, len(partition_entries) - 2
    for event in range(first_event, events):
        filled = out_offsets[event]
        if filled + len(seen) + 1 > len(out):
            return event
        cells = range(event_offsets[event], event_offsets[event + 1])
        for cell in cells:
            values[event_column[cell]] = event_code[cell]
        for pivot in cells:
            partition = partition_of[event_column[pivot]]
            if partition < 0 or event_code[pivot] == 0:
                continue
            first, last = partition_entries[partition], partition_entries[partition + 1]
            for word in range(entry_words[first], entry_words[last]):
                bitmap[word] = initial[word]
            for cell in cells:
                column = event_column[cell]
                if event_code[cell] == 0:
                    continue
                key, least, most = base[column] + event_code[cell], base[column], base[column + 1] - 1
                group = (partition * segments + column % segments) * OPERATORS
                ranged = range_bit(column, bits)
                if signatures[group] & equality_bit(key, bits):
                    _close(key, key, key, group, group_offsets, keys, last_keys, targets, bitmap)
                if signatures[group + AT_MOST] & ranged:
                    _close(key, most, key, group + AT_MOST, group_offsets, keys, last_keys, targets, bitmap)
                for operator in range(AT_LEAST, BETWEEN + 1):
                    if signatures[group + operator] & ranged:
                        _close(least, key, key, group + operator, group_offsets, keys, last_keys, targets, bitmap)
            for entry in range(first, last):
                open_bits = ZERO
                for word in range(entry_words[entry], entry_words[entry + 1]):
                    open_bits |= bitmap[word]
                subscription = subscription_of[entry]
                # Met under several pivots, it is reported under the first.
                if open_bits == ZERO and seen[subscription] != epoch + event:
                    seen[subscription] = epoch + event
                    out[filled] = subscription
                    filled += (not is_checked[subscription]) or _every_disjunction_holds(
                        subscription, values, disjunctions, members, member_column, member_low, member_high
                    )
        for entry in range(partition_entries[partitions], partition_entries[partitions + 1]):
            out[filled] = subscription_of[entry]
            filled += _every_disjunction_holds(
                subscription_of[entry], values, disjunctions, members, member_column, member_low, member_high
            )
        for cell in cells:
            values[event_column[cell]] = 0
        out_offsets[event + 1] = filled
    return events
